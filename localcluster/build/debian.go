package build

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// DebianPackages unpacks packages of the host's own Debian or Ubuntu release. Nothing is installed: the package lists,
// the downloads and the files stay in the cache. So no service starts, and no file of the host is replaced.
type DebianPackages struct {
	// Names are the packages, including libraries that they need and that a minimal host may lack.
	Names []string
	// Release identifies the host's release, such as "debian-12".
	Release string
}

// Fingerprint covers the packages' names and their release.
func (d DebianPackages) Fingerprint() ([]byte, error) {
	return []byte(d.Release + "\nmerged /usr\n" + strings.Join(d.Names, "\n")), nil
}

// Make downloads the packages and unpacks them into dest.
func (d DebianPackages) Make(ctx context.Context, dest string, log io.Writer) error {
	work, err := os.MkdirTemp(filepath.Dir(dest), ".debian-")
	if err != nil {
		return fmt.Errorf("create a folder for package lists: %w", err)
	}
	defer os.RemoveAll(work)
	lists, archives := filepath.Join(work, "lists"), filepath.Join(work, "archives")
	for _, dir := range []string{filepath.Join(lists, "partial"), filepath.Join(archives, "partial")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create a folder for package lists: %w", err)
		}
	}
	private := []string{
		"-o", "Dir::State::lists=" + lists, "-o", "Dir::Cache=" + archives,
		"-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=", "-q",
	}
	if err := run(ctx, work, log, nil, "apt-get", append(slices.Clone(private), "update")...); err != nil {
		return fmt.Errorf("read Debian's package lists: %w", err)
	}
	if err := run(ctx, work, log, nil, "apt-get", slices.Concat(private, []string{"download"}, d.Names)...); err != nil {
		return fmt.Errorf("download Debian packages %s: %w", strings.Join(d.Names, ", "), err)
	}
	packages, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil {
		return fmt.Errorf("list the packages: %w", err)
	}
	for _, file := range packages {
		if err := run(ctx, work, log, nil, "dpkg-deb", "-x", file, dest); err != nil {
			return fmt.Errorf("unpack %s: %w", filepath.Base(file), err)
		}
	}
	return mergeUsr(ctx, dest, log)
}

// mergeUsr moves the files that a package installs in /lib and similar folders below /usr, where newer releases install
// them (https://wiki.debian.org/UsrMerge). So a component has the same layout for every release.
func mergeUsr(ctx context.Context, dest string, log io.Writer) error {
	for _, folder := range []string{"bin", "sbin", "lib", "lib64"} {
		from, to := filepath.Join(dest, folder), filepath.Join(dest, "usr", folder)
		if _, err := os.Lstat(from); err != nil {
			continue
		}
		if err := os.MkdirAll(to, 0o755); err != nil {
			return fmt.Errorf("merge /usr: %w", err)
		}
		if err := run(ctx, dest, log, nil, "cp", "-a", from+"/.", to+"/"); err != nil {
			return fmt.Errorf("merge /usr: %w", err)
		}
		if err := os.RemoveAll(from); err != nil {
			return fmt.Errorf("merge /usr: %w", err)
		}
	}
	return nil
}
