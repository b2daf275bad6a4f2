// Package picture draws a moving picture, an SVG, of a run of the demo, from what the demo has said. Pure: text in,
// text out; the same run gives the same picture.
package picture
