// Package desired computes the changes that one ScaledObject needs. It is pure: objects in, changes out.
//
// Desired returns the HTTPScaledObjects for the triggers of a ScaledObject, Compare the changes of the existing
// ones. Convert returns the patch that makes triggers of type kedify-http readable for an unmodified KEDA.
package desired
