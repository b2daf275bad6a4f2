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

// testVersion is the version of programs that are built for tests.
const testVersion = "v9.9.9-test"

// Shared is the environment that all tests of a package share.
type Shared struct {
	*ControlPlane

	// Admin is a client of a member of system:masters.
	Admin *rest.RESTClient
	// Audit contains the requests of ServiceAccounts.
	Audit AuditLog
	// Folder contains the programs. It is removed after the tests.
	Folder string
}

// Folder is the environment of tests that start their own ControlPlanes.
type Folder struct {
	// Binaries are the programs of a ControlPlane.
	Binaries Binaries
	// Path is the folder with the built programs. It is removed after the tests.
	Path string
}

// RunIn is for TestMain of tests that start their own ControlPlanes, one at a time. It builds programs, named after
// their folders below cmd, and calls run. It returns the exit code. It writes an error to the standard error and then
// returns 1.
func RunIn(programs []string, run func(context.Context, Folder) (code int, err error)) int {
	code, err := runIn(programs, run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// runIn is RunIn without the error message.
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

// RunTests is for TestMain of tests that share one ControlPlane. It builds programs, starts the ControlPlane, calls
// setUp and runs the tests. tearDown, which may be nil, receives the exit code of the tests. RunTests returns the exit
// code as RunIn does.
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

// start starts the shared ControlPlane.
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
