// Package manifests builds the objects of an installation from the manifests in folder config: those of the selected
// components, with the images of a release and a label that identifies them. It is pure: it has no client and no
// context.
package manifests
