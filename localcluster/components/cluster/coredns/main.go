// Command coredns is CoreDNS with the few plugins that the embedded cluster's
// Corefile names. Upstream's own main package links every plugin, cloud SDKs
// included, which triples the build for nothing that a throw-away cluster uses.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	// Plugins register themselves when they are imported.
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	// The order in which a query passes through the plugins: the cluster's own
	// names before the answer to all others.
	dnsserver.Directives = []string{"reload", "health", "ready", "errors", "cache", "kubernetes", "template"}
	coremain.Run()
}
