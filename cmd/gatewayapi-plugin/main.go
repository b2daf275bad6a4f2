// Command gatewayapi-plugin is the traffic router argoproj-labs/gatewayAPI for Argo Rollouts. The Argo Rollouts
// controller starts it as a plugin and calls it over a socket. It writes the weights, header routes and mirror routes
// of canary Rollouts to Gateway API routes.
//
// Without the controller it prints its usage; "install" copies the binary to the controller's plugin folder.
package main

import (
	"context"
	"flag"
	"os"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/command"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
)

// version is the version of a release, set at build time by -ldflags "-X main.version=v1.2.3". Other builds use the
// build information.
var version string

func main() {
	var namespaces gatewayapi.Namespaces
	program := command.Program{
		Name: "gatewayapi-plugin", Version: version, RouterType: gatewayapi.Type,
		Summary: "writes canary weights, header routes and mirror routes to Gateway API routes",
		Flags: func(flags *flag.FlagSet) {
			flags.TextVar(&namespaces, "routeNamespaces", gatewayapi.AllNamespaces(),
				"comma-separated `namespaces` with routes that Rollouts in other namespaces may reference; "+
					"* for all, \"\" for none")
		},
		NewRouter: func(ctx context.Context, env command.Environment) router.Router {
			client := gatewayapi.NewClient(env.Config)
			go client.Watch(ctx, env.Log)
			gateways := gatewayapi.New(client, namespaces, env.Log)
			go gateways.WatchObjects(ctx)
			return gateways
		},
	}
	os.Exit(program.Run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
