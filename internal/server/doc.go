// Package server starts, watches and ends the parts of a server process.
//
// Parts run side by side; a part that needs another one to be ready first waits for it by itself. The end has two
// phases: at the first signal the process says that it is not ready and goes on serving, so that load balancers can
// look elsewhere; then every part is told to stop, with a deadline. A part that fails ends the whole process with its
// error: a server that lost a listener must not look alive.
package server
