// Package mutants proves that the demo can fail: it breaks the data path on
// purpose and expects the demo to notice, and to say what is wrong.
package mutants
