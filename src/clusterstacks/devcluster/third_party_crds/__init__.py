"""Definitions of other providers (``csctl dev up --crds DIR``), made to work without the providers themselves.

Their kinds can be written and referred to; nobody reconciles, defaults, validates or converts them:

- Conversion webhooks cannot be reached, and without conversion an object of another version would silently lose every
  field that the stored version does not know. So only versions that say the same about ``spec`` as the stored one are
  served, unless the definition itself asks for no conversion. What is taken away is reported.
- Contract labels are never invented, for a wrong one makes Cluster API read the wrong fields. They are taken from the
  definition or from a kustomization.yaml that lists its file; one that is needed and nowhere stated is an error.
"""
