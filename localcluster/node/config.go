package node

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
	"github.com/kedify/argo-rollouts-plugin/localcluster/images"
	"github.com/kedify/argo-rollouts-plugin/localcluster/install"
)

// Config is what the host tells the inside.
type Config struct {
	// Settings describe the cluster.
	Settings cluster.Settings `json:"settings"`
	// Images are served by the cluster's registry.
	Images []images.Spec `json:"images"`
	// Steps are carried out, in order, once the API server is ready.
	Steps []install.Step `json:"steps"`
	// Forwards are the addresses inside the cluster that the host's listeners
	// lead to, in the order of the inherited listeners.
	Forwards []Forward `json:"forwards"`
	// Owner is the user who asked for the cluster.
	Owner int `json:"owner"`
	// Contents say what the cluster is made of.
	Contents Contents `json:"contents"`
	// Bare says that nothing but DNS was asked for.
	Bare bool `json:"bare,omitempty"`
	// Addons name what was asked for beyond what every cluster has. The inside
	// has no use for them; the next command that asks for them has.
	Addons []string `json:"addons,omitempty"`
}

// Contents say what a cluster is made of, so that the next command can tell what
// has changed since. The inside has no use for them.
type Contents struct {
	// Parts are the folders of the built parts, by name; a folder's name has a
	// hash of what the part was made of.
	Parts map[string]string `json:"parts"`
	// Programs are hashes of this project's own programs, by name.
	Programs map[string]string `json:"programs"`
	// Given are the programs that a user gave as binaries.
	Given []string `json:"given,omitempty"`
	// Manifests is a hash of what is applied.
	Manifests string `json:"manifests"`
}

// Forward leads connections that the host accepts to an address inside.
type Forward struct {
	// Name is what the address is called in the cluster's status.
	Name string `json:"name"`
	// Target is host:port; the host is an address, or the DNS name of a Service.
	Target string `json:"target"`
}

// ReadConfig reads a configuration file that the host wrote.
func ReadConfig(path string) (Config, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read the node configuration: %w", err)
	}
	var c Config
	if err := json.Unmarshal(raw, &c); err != nil {
		return Config{}, fmt.Errorf("read the node configuration %s: %w", path, err)
	}
	return c, nil
}
