package interceptorroutes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/scaler/externalscaler"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/coldstart"
	"github.com/kedify/argo-rollouts-plugin/test/kit/netspace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
)

// repository is the folder of the repository.
const repository = "../.."

// shared is the environment of all tests, which run one after the other.
var shared *environment

func TestMain(m *testing.M) {
	inside := func() int {
		code, err := run(m)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}
	os.Exit(netspace.Run(inside, func(folder string) error {
		return program.Build(context.Background(), folder, "v9.9.9-test", "interceptor", "scaler")
	}))
}

// run starts the environment, runs the tests, and stops it. After a failed test it writes the log of the interceptor.
func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	folder, err := os.MkdirTemp("", "interceptorroutes")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if shared, err = start(ctx, folder); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, shared.stop()) }()
	code = m.Run()
	if code != 0 {
		log, err := shared.interceptor.Log()
		fmt.Fprintf(os.Stderr, "log of the interceptor: %v\n%s\n", err, log)
	}
	return code, nil
}

// environment is a cluster without nodes: the test adds and removes the endpoints of apps.
type environment struct {
	*coldstart.Testbed

	interceptor *coldstart.Replica
	scaler      *program.Process
	connection  *grpc.ClientConn // to the scaler
}

// start starts everything. The proxies are those of the namespace of the apps. Envoy has one worker, so that all requests
// after the first one with a new configuration use this configuration.
func start(ctx context.Context, folder string) (s *environment, err error) {
	binaries, err := apiserver.FromEnvironment(os.Getenv)
	if err != nil {
		return nil, err
	}
	s = &environment{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	s.Testbed, err = coldstart.Start(ctx, coldstart.Options{
		Binaries: binaries, Envoy: os.Getenv("ENVOY_BIN"), Repository: repository, Built: netspace.Folder(), Folder: folder,
		Workers: 1, Arguments: []string{"--shutdown-delay=1s"},
	})
	if err != nil {
		return s, err
	}
	crd := filepath.Join(repository, "config/crd/http.keda.sh_interceptorroutes.yaml")
	if err := apiserver.ApplyFiles(ctx, s.Admin, "", crd); err != nil {
		return s, err
	}
	if s.interceptor, err = s.StartInterceptor(ctx, 0); err != nil {
		return s, err
	}
	if err := s.StartProxy(ctx); err != nil {
		return s, err
	}
	if err := s.allowScaler(ctx); err != nil {
		return s, err
	}
	if s.scaler, err = s.StartScaler(ctx); err != nil {
		return s, err
	}
	s.connection, err = grpc.NewClient(coldstart.ScalerAddress, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return s, err
}

// allowScaler grants the permissions of the scaler, and waits until the API server respects them. The scaler repeats a
// forbidden request after minutes only.
func (s *environment) allowScaler(ctx context.Context) error {
	err := apiserver.ApplyFiles(ctx, s.Admin, "", filepath.Join(repository, "config/scaler/rbac.yaml"))
	if err != nil {
		return err
	}
	scaler, err := s.Plane.Client(apiserver.ScalerToken)
	if err != nil {
		return err
	}
	for _, path := range []string{
		"/apis/http.keda.sh/v1alpha1/httpscaledobjects",
		"/apis/discovery.k8s.io/v1/namespaces/" + httpv1alpha1.DefaultInterceptorNamespace + "/endpointslices",
	} {
		var last error
		err := await.Until(ctx, "the permission to list "+path, func() bool {
			last = scaler.Get().AbsPath(path).Do(ctx).Error()
			return last == nil
		}, func() string { return last.Error() })
		if err != nil {
			return err
		}
	}
	return nil
}

// stop stops everything that runs.
func (s *environment) stop() error {
	var errs error
	if s.connection != nil {
		errs = s.connection.Close()
	}
	if s.scaler != nil {
		errs = errors.Join(errs, s.scaler.Kill())
	}
	if s.interceptor != nil {
		errs = errors.Join(errs, s.interceptor.Kill())
	}
	if s.Testbed != nil {
		errs = errors.Join(errs, s.Stop())
	}
	return errs
}

// keda returns KEDA's client of the scaler.
func (s *environment) keda() externalscaler.ExternalScalerClient {
	return externalscaler.NewExternalScalerClient(s.connection)
}
