// Package install carries out what packages manifests, registration and autowire have worked out: it makes, changes and
// removes the objects of an installation, has the Argo Rollouts controller start anew, and waits for what comes of that.
//
// Each write can be repeated: whoever is interrupted calls again, and what is done already stays as it is.
package install
