// Package manifests makes the objects of an installation from the manifests of folder config: those of the components
// that are wanted, with the images of a release and a label by which they are found again. It gets values and returns
// values.
package manifests
