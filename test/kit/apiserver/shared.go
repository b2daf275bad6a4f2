package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
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

// Folder is what the tests of a package are run with that start ControlPlanes of their own.
type Folder struct {
	// Binaries are what a ControlPlane is made of.
	Binaries Binaries
	// Path is the folder. It has the programs, and goes when the tests are over.
	Path string
}

// RunIn is for TestMain of tests that start ControlPlanes of their own, one at a time. It builds programs, named as their folders below cmd, and has run do the
// rest. The result is the exit code: an error is written to the standard error, and makes it 1.
func RunIn(programs []string, run func(context.Context, Folder) (code int, err error)) int {
	code, err := runIn(programs, run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// runIn is RunIn but for what is said about errors.
func runIn(programs []string, run func(context.Context, Folder) (int, error)) (code int, err error) {
	binaries, err := FromEnvironment(os.Getenv)
	if err != nil {
		return 0, err
	}
	path, err := os.MkdirTemp("", "shared-controlplane")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(path)) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := program.Build(ctx, path, testVersion, programs...); err != nil {
		return 0, err
	}
	return run(ctx, Folder{binaries, path})
}

// RunTests is for TestMain of tests that share one ControlPlane. It builds programs and starts it, has setUp install what
// the tests need, and runs them. tearDown, which may be nil, is told how they ended. The result is that of RunIn.
func RunTests(
	m *testing.M, programs []string, setUp func(context.Context, Shared) (tearDown func(code int) error, err error),
) int {
	return RunIn(programs, func(ctx context.Context, folder Folder) (code int, err error) {
		shared, err := start(ctx, folder)
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
	})
}

// start starts the ControlPlane that tests share.
func start(ctx context.Context, folder Folder) (Shared, error) {
	shared, state := Shared{Folder: folder.Path}, filepath.Join(folder.Path, "state")
	audit, err := NewAuditLog(folder.Path)
	if err := errors.Join(err, os.Mkdir(state, 0o700)); err != nil {
		return Shared{}, err
	}
	shared.Audit = audit
	if shared.ControlPlane, err = Start(ctx, folder.Binaries, state, audit.Flags()...); err != nil {
		return Shared{}, err
	}
	if shared.Admin, err = shared.Client(AdminToken); err != nil {
		return Shared{}, errors.Join(err, shared.Stop())
	}
	return shared, nil
}
