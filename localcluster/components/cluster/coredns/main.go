// Command coredns is CoreDNS with only the plugins that the embedded cluster's Corefile uses. Upstream's main package
// links every plugin, including cloud SDKs, and takes three times as long to build.
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
	// The order of the plugins for a query: the cluster's own names come before the answer to all others.
	dnsserver.Directives = []string{"reload", "health", "ready", "errors", "cache", "kubernetes", "template"}
	coremain.Run()
}
