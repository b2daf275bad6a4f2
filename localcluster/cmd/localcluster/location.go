package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/localcluster/build"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
)

// location contains the paths on this machine.
type location struct {
	repo, cache string
	// cluster distinguishes the clusters of one checkout. Users use "".
	cluster string
	// kubernetes is the version of Kubernetes, such as v1.34.5.
	kubernetes string
}

// resolve makes both folders absolute and checks the repository.
func (l *location) resolve() error {
	repo, err := filepath.Abs(l.repo)
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	if _, err := os.Stat(filepath.Join(repo, "localcluster", "components")); err != nil {
		return fmt.Errorf("%s is not this project's repository: run it there, or set --repo: %w", repo, err)
	}
	l.repo = repo
	versions := append([]string{build.KubernetesVersion}, build.OtherKubernetesVersions()...)
	l.kubernetes = "v" + strings.TrimPrefix(cmp.Or(l.kubernetes, build.KubernetesVersion), "v")
	if !slices.Contains(versions, l.kubernetes) {
		return fmt.Errorf("--kubernetes: there is no component for Kubernetes %s: the versions are %s", l.kubernetes,
			strings.Join(versions, ", "))
	}
	if l.cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("find the cache folder (set --cache): %w", err)
		}
		l.cache = filepath.Join(user, "kedify-localcluster")
	}
	if l.cache, err = filepath.Abs(l.cache); err != nil {
		return fmt.Errorf("find the cache folder: %w", err)
	}
	for _, folder := range []string{l.repo, l.cache} {
		// kubectl reads -f as a list.
		if strings.Contains(folder, ",") {
			return fmt.Errorf("%s: a path with a comma cannot be given to kubectl: use another folder", folder)
		}
	}
	if err := os.MkdirAll(l.cache, 0o755); err != nil {
		return fmt.Errorf("create the cache folder: %w", err)
	}
	return nil
}

// name returns the name of the cluster on this machine.
func (l *location) name() string { return cluster.NameOf(l.repo, l.cluster) }

// dir is the run directory of this checkout's cluster.
func (l *location) dir() string { return filepath.Join(l.cache, "clusters", l.name()) }

// makeDir creates the run directory. The folder of all clusters gets the owner of the cache, also if root creates it,
// as with `sudo`.
func (l *location) makeDir() error {
	if err := os.MkdirAll(l.dir(), 0o755); err != nil {
		return fmt.Errorf("create the run directory: %w", err)
	}
	if os.Geteuid() != 0 {
		return nil
	}
	var cache unix.Stat_t
	if err := unix.Stat(l.cache, &cache); err != nil {
		return fmt.Errorf("find the owner of the cache: %w", err)
	}
	if err := os.Chown(filepath.Dir(l.dir()), int(cache.Uid), int(cache.Gid)); err != nil {
		return fmt.Errorf("change the owner of the folder of clusters: %w", err)
	}
	return nil
}

// modules is the folder of the localcluster module.
func (l *location) modules() string { return filepath.Join(l.repo, "localcluster") }

func (l *location) buildCache() build.Cache { return build.Cache{Dir: l.cache} }
