// Command rollouts-plugin-kedify is the traffic router kedify/http for Argo Rollouts. The Argo Rollouts controller starts it as a plugin and calls it over
// a socket; it writes the weights of canary Rollouts into the annotation http.kedify.io/weighted-backends of HTTPScaledObjects.
//
// Started by hand it explains itself, and "install" copies it to where a controller finds it.
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

// version is the version of a release, set at build time by -ldflags "-X main.version=v1.2.3". Other builds read theirs from the build information.
var version string

const usage = `rollouts-plugin-kedify is the traffic router "kedify/http" for Argo Rollouts: it writes canary weights to HTTPScaledObjects.

The Argo Rollouts controller starts it; by hand it does nothing. To register it, put this into the ConfigMap argo-rollouts-config
in the controller's namespace and restart the controller:

  data:
    trafficRouterPlugins: |
      - name: "kedify/http"
        location: "file:///home/argo-rollouts/plugin-bin/rollouts-plugin-kedify"

Usage:
  rollouts-plugin-kedify [flags]              started by the controller; flags come from "args" beside "location"
  rollouts-plugin-kedify install DIR_OR_FILE  copy this binary, for an init container
  rollouts-plugin-kedify --version | --help

Flags:
`

func main() {
	var interceptors types.NamespacedName
	program := command.Program{
		Name: "rollouts-plugin-kedify", Version: version, Usage: usage,
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&interceptors.Namespace, "interceptor-namespace", httpv1alpha1.DefaultInterceptorNamespace, "`namespace` of the interceptors")
			flags.StringVar(&interceptors.Name, "interceptor-lease", httpv1alpha1.DefaultInterceptorLease,
				"`name` of the Lease there that they renew; while they do, weights are verified by what the proxies took")
		},
		Router: func(ctx context.Context, with command.Surroundings) router.Router {
			client := httpso.NewClient(with.Config)
			go client.Watch(ctx, with.Log)
			return httpso.New(client, interceptors, with.Log)
		},
	}
	os.Exit(program.Run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
