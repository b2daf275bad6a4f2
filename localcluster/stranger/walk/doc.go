// Package walk does on a stranger's machine what README says, as its user on a
// terminal, and tells how it went and what it has left there.
package walk
