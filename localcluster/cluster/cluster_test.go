package cluster

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func settings() Settings {
	return Settings{
		Name: "test", Dir: "/run/dir", Bin: "/programs", Addresses: DefaultAddresses(),
		ExtraArgs: map[string][]string{"etcd": {"--log-level=debug"}},
	}
}

func TestComponentsWaitForComponentsThatExist(t *testing.T) {
	components := Components(settings())
	var names []string
	for _, c := range components {
		names = append(names, c.Name)
	}
	for _, c := range components {
		for _, before := range c.After {
			if i := slices.Index(names, before); i < 0 || i >= slices.Index(names, c.Name) {
				t.Errorf("%s waits for %s, which is not before it in %v", c.Name, before, names)
			}
		}
		if (c.Ready.URL == "") == (c.Ready.Socket == "") {
			t.Errorf("%s: want exactly one probe, have %+v", c.Name, c.Ready)
		}
	}
}

func TestExtraArgumentsComeLast(t *testing.T) {
	args := Components(settings())[0].Args
	if args[len(args)-1] != "--log-level=debug" {
		t.Errorf("etcd's arguments end with %q", args[len(args)-1])
	}
}

// A flag that names a file below the run directory must name a file that exists: a configuration file, a certificate,
// or a file that the component writes.
func TestFlagsNameExistingFiles(t *testing.T) {
	s := settings()
	files := Files(s)
	for _, c := range Components(s) {
		for _, arg := range c.Args {
			_, path, found := strings.Cut(arg, s.Dir+"/etc/")
			if !found {
				continue
			}
			if _, ok := files[filepath.Join("etc", path)]; !ok {
				t.Errorf("%s: %s is not among the files", c.Name, arg)
			}
		}
	}
}

func TestEveryKubeconfigHasAnIdentity(t *testing.T) {
	s := settings()
	clients := Certificates(s).Clients
	for _, c := range Components(s) {
		for _, arg := range c.Args {
			if name, isKubeconfig := strings.CutSuffix(filepath.Base(arg), ".kubeconfig"); isKubeconfig {
				if _, ok := clients[name]; !ok {
					t.Errorf("%s: %s has no owner", c.Name, arg)
				}
			}
		}
	}
}

func TestNothingIsWrittenOutsideTheRunDirectory(t *testing.T) {
	for path := range Files(settings()) {
		if !filepath.IsLocal(path) {
			t.Errorf("%s leaves the run directory", path)
		}
	}
}
