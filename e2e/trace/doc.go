// Package trace judges what was seen while something was broken on purpose:
// which weights there were beside those that were asked for, and which failed
// requests a living proxy could have served. Pure: values in, values out.
package trace
