"""Builds releases from the source directories of cluster stacks.

::

    create            coordinator: builds, packages and publishes the releases of ``csctl create``
    discover          stack directories of a repository
    settings          csctl.yaml, stack.yaml and versions.yaml
    source_tree       files, hashes, version tags and metadata.yaml of a stack directory
    pinning           addon versions of stack.yaml and versions.yaml
    yaml_edit         changes of single YAML values
    packaging         the files of a release
    plugins           node images by a plugin of the provider
    image_build       node images by the build instructions of the stack
    output_directory  atomic replacement of builds
    previous_release  the release to compare with
    version_rules     rules for the versions of the next release
    version_inputs    the inputs of these rules
    remotes           places to publish to

The same source gives the same bytes on any machine. Nothing but the output directory is written, and a release appears
there complete or not at all.
"""
