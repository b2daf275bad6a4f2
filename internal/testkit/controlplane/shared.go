package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/testkit/program"
)

// testVersion is what programs that are built for tests say their version is.
const testVersion = "v9.9.9-test"

// Shared is what all tests of a package share.
type Shared struct {
	*ControlPlane

	// Admin is a client of a member of system:masters.
	Admin *rest.RESTClient
	// Audit has the requests of ServiceAccounts.
	Audit AuditLog
	// Folder has the programs, and goes when the tests are over.
	Folder string
}

// RunTests is for TestMain. It builds programs, named as their folders below cmd, starts a ControlPlane, has setUp install what
// the tests need, and runs them. tearDown, which may be nil, is told how they ended. The result is the exit code: what went
// wrong before or after the tests is written to the standard error, and makes it 1.
func RunTests(
	m *testing.M, programs []string, setUp func(context.Context, Shared) (tearDown func(code int) error, err error),
) int {
	code, err := runTests(m, programs, setUp)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// runTests is RunTests but for what is said about errors.
func runTests(
	m *testing.M, programs []string, setUp func(context.Context, Shared) (func(int) error, error),
) (code int, err error) {
	binaries, err := FromEnvironment(os.Getenv)
	if err != nil {
		return 0, err
	}
	folder, err := os.MkdirTemp("", "shared-controlplane")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	shared, err := start(ctx, binaries, folder, programs)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, shared.Stop()) }()
	tearDown, err := setUp(ctx, shared)
	if err != nil {
		return 0, err
	}
	code = m.Run()
	if tearDown != nil {
		err = tearDown(code)
	}
	return code, err
}

// start builds the programs and starts the ControlPlane.
func start(ctx context.Context, binaries Binaries, folder string, programs []string) (Shared, error) {
	shared, state := Shared{Folder: folder}, filepath.Join(folder, "state")
	err := errors.Join(os.Mkdir(state, 0o700), program.Build(ctx, folder, testVersion, programs...))
	if err != nil {
		return Shared{}, err
	}
	if shared.Audit, err = NewAuditLog(folder); err != nil {
		return Shared{}, err
	}
	if shared.ControlPlane, err = Start(ctx, binaries, state, shared.Audit.Flags()...); err != nil {
		return Shared{}, err
	}
	if shared.Admin, err = shared.Client(AdminToken); err != nil {
		return Shared{}, errors.Join(err, shared.Stop())
	}
	return shared, nil
}
