"""Builds the container image of the operator without docker: an OCI image layout of Debian files and locked wheels.

::

    layers        files of a layer, and the archive of them: the same files give the same bytes
    debian        Python and its libraries out of Debian packages
    wheels        the locked wheels, and the wheel of this project
    bytecode      compiled Python, made by the image's own interpreter
    sbom          the list of what is in an image (CycloneDX)
    provenance    how it was built (SLSA)
    layout        the OCI image layout: blobs, configuration, manifests, index
    building      all of the above in order
    pushing       the layout into a registry
    signatures    signatures and attestations of an image, as cosign makes them
"""
