package server

import (
	"fmt"
	"runtime/debug"
)

// PanicError is the error of a function that has panicked, which is a bug.
type PanicError struct {
	// Value is the value of the panic.
	Value any
	// Stack is the stack of the goroutine.
	Stack []byte
}

// Error returns the value, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Recovered calls run. If run panics, the error is a *PanicError.
func Recovered(run func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{value, debug.Stack()}
		}
	}()
	return run()
}
