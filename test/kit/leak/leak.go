// Package leak finds goroutines that the tests of a package left behind.
package leak

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// Main runs the tests of a package and ends the process. The process fails if a goroutine still runs await.Patience
// after the last test: goroutines of gRPC and client-go end later than the call that ends them.
func Main(m *testing.M) {
	os.Exit(verify(m.Run, func() error { return goleak.Find() }))
}

// verify runs tests and returns the exit status of the process. find returns an error about the goroutines that run.
func verify(run func() int, find func() error) int {
	code := run()
	if code != 0 {
		return code
	}
	var leaked error
	isClean := func() bool {
		leaked = find()
		return leaked == nil
	}
	instead := func() string { return leaked.Error() }
	if await.Until(context.Background(), "the end of all goroutines", isClean, instead) != nil {
		fmt.Fprintf(os.Stderr, "goroutines leak after successful tests: %v\n", leaked)
		return 1
	}
	return 0
}
