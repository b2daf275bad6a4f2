// Command gatewayapi-plugin is the traffic router argoproj-labs/gatewayAPI for Argo Rollouts. The Argo Rollouts controller starts it as a plugin and calls it
// over a socket; it writes the weights, header routes and mirror routes of canary Rollouts into Gateway API routes.
//
// Started by hand it explains itself, and "install" copies it to where a controller finds it.
package main

import (
	"context"
	"flag"
	"os"

	"github.com/kedify/argo-rollouts-plugin/internal/router"
	"github.com/kedify/argo-rollouts-plugin/internal/router/command"
	"github.com/kedify/argo-rollouts-plugin/internal/router/gatewayapi"
)

// version is the version of a release, set at build time by -ldflags "-X main.version=v1.2.3". Other builds read theirs from the build information.
var version string

const usage = `gatewayapi-plugin is the traffic router "argoproj-labs/gatewayAPI" for Argo Rollouts: it writes canary weights, header routes and
mirror routes to the routes of the Gateway API.

The Argo Rollouts controller starts it; by hand it does nothing. To register it, put this into the ConfigMap argo-rollouts-config
in the controller's namespace and restart the controller:

  data:
    trafficRouterPlugins: |
      - name: "argoproj-labs/gatewayAPI"
        location: "file:///home/argo-rollouts/plugin-bin/gatewayapi-plugin"

Usage:
  gatewayapi-plugin [flags]              started by the controller; flags come from "args" beside "location"
  gatewayapi-plugin install DIR_OR_FILE  copy this binary, for an init container
  gatewayapi-plugin --version | --help

Flags:
`

func main() {
	var namespaces gatewayapi.Namespaces
	program := command.Program{
		Name: "gatewayapi-plugin", Version: version, Usage: usage,
		Flags: func(flags *flag.FlagSet) {
			flags.TextVar(&namespaces, "routeNamespaces", gatewayapi.AllNamespaces(),
				"`namespaces`, divided by commas, in which Rollouts of other namespaces may name routes; * for all, \"\" for none")
		},
		Router: func(ctx context.Context, with command.Surroundings) router.Router {
			client := gatewayapi.NewClient(with.Config)
			go client.Watch(ctx, with.Log)
			return gatewayapi.New(client, namespaces, with.Log)
		},
	}
	os.Exit(program.Run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
