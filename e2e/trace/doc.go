// Package trace judges what was seen while something was broken on purpose:
// which weights there were beside those that were asked for, which failed
// requests a living proxy could have served, and how long a router took. Pure:
// values in, values out.
package trace
