package image

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Password is the sudo password of the user dev. The machine is reachable from the host only, by key, so the password
// is not secret.
const Password = "a user's"

// User is the user who runs README's commands.
const User = "dev"

const (
	release = "trixie"
	keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	// diskSize is the size of each of the two disks. They are sparse.
	diskSize = "40G"
)

//go:embed customise.sh
var customise string

// packages are the installed packages: README's requirements, Docker, and what a bootable machine needs.
func packages() []string {
	return []string{
		"linux-image-cloud-amd64", "systemd", "systemd-sysv", "libpam-systemd", "dbus", "sudo", "openssh-server",
		"apparmor", "bash-completion", "ca-certificates", "curl", "docker.io", "docker-cli", "gcc", "git", "iproute2",
		"iptables", "kmod", "less", "libc6-dev",
		"make", "nftables", "procps", "python3", "python3-pip",
	}
}

// Base is an unused Debian.
type Base struct {
	// Disk is the raw image of the root file system.
	Disk string
	// Kernel and Initrd are the boot files.
	Kernel, Initrd string
	// Home is the folder that becomes /home.
	Home string
}

// Builder builds disks below a folder.
type Builder struct {
	// Dir is the folder for disks. All of its content can be rebuilt.
	Dir string
	// Keys are authorized.
	Keys Keys
	// Log receives the output of tools.
	Log io.Writer
}

// recipe contains all inputs of a base.
type recipe struct {
	Packages                            []string
	Network                             network
	Release, Size, Script, Keys, GoRoot string
	Go                                  string
}

// Base returns the disk of a Debian. It builds the disk if it does not exist, or if fresh is set, which installs
// Debian's newest packages.
func (b Builder) Base(ctx context.Context, fresh bool) (Base, error) {
	if runtime.GOARCH != "amd64" {
		return Base{}, fmt.Errorf("the clean machine needs an amd64 host, this one is %s: run it on amd64", runtime.GOARCH)
	}
	how, err := b.recipe(ctx)
	if err != nil {
		return Base{}, err
	}
	raw, err := json.Marshal(how)
	if err != nil {
		return Base{}, fmt.Errorf("describe the disk: %w", err)
	}
	sum := sha256.Sum256(raw)
	dir := filepath.Join(b.Dir, release+"-"+hex.EncodeToString(sum[:])[:12])
	out := Base{
		Disk: filepath.Join(dir, "root.raw"), Kernel: filepath.Join(dir, "vmlinuz"),
		Initrd: filepath.Join(dir, "initrd.img"), Home: filepath.Join(dir, "home"),
	}
	if _, err := os.Stat(dir); err == nil && !fresh {
		return out, nil
	}
	return out, b.build(ctx, how, dir)
}

func (b Builder) recipe(ctx context.Context) (recipe, error) {
	reach, err := hostNetwork(ctx)
	if err != nil {
		return recipe{}, err
	}
	root, err := output(ctx, "go", "env", "GOROOT")
	if err != nil {
		return recipe{}, fmt.Errorf("find Go: %w", err)
	}
	version, err := os.ReadFile(filepath.Join(root, "VERSION"))
	if err != nil {
		return recipe{}, fmt.Errorf("read Go's version: %w", err)
	}
	return recipe{
		Packages: packages(), Network: reach, Release: release, Size: diskSize,
		Script: customise, Keys: b.Keys.identity(), GoRoot: root, Go: string(version),
	}, nil
}

// build builds the base in a temporary folder and renames the folder when it is complete. Disks of other recipes are
// removed: one takes 2 GB.
func (b Builder) build(ctx context.Context, how recipe, dir string) error {
	if err := b.removeOld(); err != nil {
		return err
	}
	work := filepath.Join(b.Dir, ".making")
	stage, root := filepath.Join(work, "stage"), filepath.Join(work, "root")
	if err := b.stage(how, stage); err != nil {
		return err
	}
	if err := run(ctx, b.Log, "mmdebstrap", b.bootstrap(how, stage, root)...); err != nil {
		return fmt.Errorf("install Debian: %w", err)
	}
	for from, to := range map[string]string{
		"boot/vmlinuz-*": "vmlinuz", "boot/initrd.img-*": "initrd.img", "home": "home",
	} {
		if err := moveFile(root, from, filepath.Join(work, to)); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(root, "home"), 0o755); err != nil {
		return fmt.Errorf("create the mount point of /home: %w", err)
	}
	err := run(ctx, b.Log, "mke2fs", "-q", "-t", "ext4", "-L", "cleanvm-root", "-d", root, filepath.Join(work, "root.raw"),
		how.Size)
	if err != nil {
		return fmt.Errorf("create the root disk: %w", err)
	}
	for _, done := range []string{root, stage} {
		if err := os.RemoveAll(done); err != nil {
			return fmt.Errorf("remove the sources of the disk: %w", err)
		}
	}
	if err := os.Rename(work, dir); err != nil {
		return fmt.Errorf("store the disk: %w", err)
	}
	return nil
}

// removeOld removes the bases of other recipes and incomplete ones.
func (b Builder) removeOld() error {
	old, err := filepath.Glob(filepath.Join(b.Dir, release+"-*"))
	if err != nil {
		return fmt.Errorf("list the disks: %w", err)
	}
	for _, dir := range append(old, filepath.Join(b.Dir, ".making")) {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove an old disk: %w", err)
		}
	}
	return nil
}

// bootstrap returns mmdebstrap's arguments.
func (b Builder) bootstrap(how recipe, stage, root string) []string {
	args := []string{
		"--mode=root", "--variant=important", "--format=directory", "--keyring=" + keyring,
		"--include=" + strings.Join(how.Packages, ","),
		// The initial RAM disk needs only the drivers of the disks.
		"--essential-hook=mkdir -p \"$1/etc\"; cp -a '" + filepath.Join(stage, "early") + "/.' \"$1/etc/\"",
		"--customize-hook=cp -a '" + filepath.Join(stage, "late") + "/.' \"$1/\"",
		"--customize-hook=cp -a '" + how.GoRoot + "' \"$1/usr/local/go\"; chown -R 0:0 \"$1/usr/local/go\"",
		"--customize-hook=CLEANVM_PASSWORD=\"" + Password + "\" chroot \"$1\" /customise; rm \"$1/customise\"",
	}
	for _, line := range how.Network.Apt {
		args = append(args, "--aptopt="+line)
	}
	args = append(args, how.Release, root)
	return append(args, how.Network.sources(how.Release)...)
}

// moveFile moves the one file that matches a pattern below root.
func moveFile(root, pattern, to string) error {
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("the new Debian has %d files %s: want one", len(found), pattern)
	}
	if err := os.Rename(found[0], to); err != nil {
		return fmt.Errorf("move %s out of the new Debian: %w", pattern, err)
	}
	return nil
}
