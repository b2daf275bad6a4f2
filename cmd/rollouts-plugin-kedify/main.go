// Command rollouts-plugin-kedify is the traffic router kedify/http for Argo Rollouts. The Argo Rollouts controller
// starts it as a plugin and calls it over a socket. It writes the weights of canary Rollouts to the annotation
// http.kedify.io/weighted-backends of HTTPScaledObjects.
//
// Without the controller it prints its usage; "install" copies the binary to the controller's plugin folder.
package main

import (
	"context"
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/types"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/command"
	"github.com/kedify/argo-rollouts-plugin/internal/router/httpso"
)

// version is the version of a release, set at build time by -ldflags "-X main.version=v1.2.3". Other builds use the
// build information.
var version string

func main() {
	var interceptors types.NamespacedName
	program := command.Program{
		Name: "rollouts-plugin-kedify", Version: version, RouterType: httpso.Type,
		Summary: "writes canary weights to HTTPScaledObjects",
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&interceptors.Namespace, "interceptor-namespace", httpv1alpha1.DefaultInterceptorNamespace,
				"`namespace` of the interceptors")
			flags.StringVar(&interceptors.Name, "interceptor-lease", httpv1alpha1.DefaultInterceptorLease,
				"`name` of the interceptors' Lease, which shows whether one of them runs")
		},
		NewRouter: func(ctx context.Context, env command.Environment) router.Router {
			client := httpso.NewClient(env.Config)
			go client.Watch(ctx, env.Log)
			scaledObjects := httpso.New(client, interceptors, env.Log)
			go scaledObjects.WatchObjects(ctx)
			return scaledObjects
		},
	}
	os.Exit(program.Run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
