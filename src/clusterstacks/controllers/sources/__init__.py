"""The sources of releases at run time: which one a ClusterStack names, how it is asked, and what it answered."""
