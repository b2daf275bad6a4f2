// Package picture draws an animated SVG of a run from the demo's output. It has no side effects: the same run gives the
// same picture.
package picture
