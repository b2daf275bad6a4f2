// Package walk runs README's commands on a clean machine, as its user on a terminal. It reports their results and what
// they left on the machine.
package walk
