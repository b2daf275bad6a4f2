package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// HomeCommand is the program name under which this program builds the disk of /home, with a plan as its only argument;
// see MakeHome.
const HomeCommand = "make-home"

// guestUser is the user ID in the guest: the first one that Debian assigns.
const guestUser = 1000

// plan describes a disk of /home.
type plan struct {
	// Root is the folder that becomes /home. Disk is the output file.
	Root, Disk, Size string
	// Binds maps folders of the host to folders below Root.
	Binds map[string]string
}

// Home builds the disk of /home: an empty one, or one with the host's caches if they are to be copied. It is built for
// each run, because the host's caches change. Components that depend on a distribution are not copied.
func (b Builder) Home(ctx context.Context, base Base, parts string, carry bool) (string, error) {
	p := plan{Root: filepath.Join(b.Dir, "home"), Disk: filepath.Join(b.Dir,
		"home.raw"), Size: diskSize, Binds: map[string]string{}}
	for _, old := range []string{p.Root, p.Disk} {
		if err := os.RemoveAll(old); err != nil {
			return "", fmt.Errorf("remove the last run's home: %w", err)
		}
	}
	if err := os.CopyFS(p.Root, os.DirFS(base.Home)); err != nil {
		return "", fmt.Errorf("copy the user's home: %w", err)
	}
	if err := os.Chmod(filepath.Join(p.Root, User), 0o700); err != nil {
		return "", fmt.Errorf("restrict the permissions of the user's home: %w", err)
	}
	if carry {
		if err := p.addCaches(ctx, parts); err != nil {
			return "", err
		}
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("describe the home: %w", err)
	}
	return p.Disk, b.asGuestUser(ctx, string(raw))
}

// addCaches adds the host's caches to the plan.
func (p *plan) addCaches(ctx context.Context, parts string) error {
	home := filepath.Join(p.Root, User)
	for variable, target := range map[string]string{"GOMODCACHE": "go/pkg/mod", "GOCACHE": ".cache/go-build"} {
		dir, err := output(ctx, "go", "env", variable)
		if err != nil {
			return fmt.Errorf("find Go's caches: %w", err)
		}
		p.Binds[dir] = filepath.Join(home, target)
	}
	entries, err := os.ReadDir(parts)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list the built components: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() && isPortable(name) {
			p.Binds[filepath.Join(parts, name)] = filepath.Join(home, ".cache", "kedify-localcluster", "parts", name)
		}
	}
	for _, target := range p.Binds {
		if err := os.MkdirAll(target, 0o755); err != nil {
			return fmt.Errorf("create a folder of the home: %w", err)
		}
	}
	return nil
}

// isPortable reports whether a component is the same on every distribution. Components from Debian's packages have its
// release in their key. Incomplete ones have a dot.
func isPortable(part string) bool {
	for _, prefix := range []string{".", "debian-", "glibc-"} {
		if strings.HasPrefix(part, prefix) {
			return false
		}
	}
	return true
}

// asGuestUser restarts this program in namespaces of its own, in which the host user's files belong to the guest's
// user: mke2fs has no option for owners. The kernel removes the mounts with the namespaces.
func (b Builder) asGuestUser(ctx context.Context, plan string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	command := exec.CommandContext(ctx, self, HomeCommand, plan)
	command.Stdout, command.Stderr = b.Log, b.Log
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: guestUser, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: guestUser, HostID: os.Getgid(), Size: 1}},
		// A user other than root loses all capabilities on exec.
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
		Pdeathsig:   syscall.SIGKILL,
	}
	if err := command.Run(); err != nil {
		return fmt.Errorf("create the disk of /home: %w", err)
	}
	return nil
}

// MakeHome executes a plan: it bind-mounts the folders and then executes mke2fs. Only HomeCommand calls it.
func MakeHome(text string) error {
	var p plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("create the mounts private: %w", err)
	}
	for source, target := range p.Binds {
		if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("bind %s: %w", source, err)
		}
	}
	program, err := exec.LookPath("mke2fs")
	if err != nil {
		return fmt.Errorf("find mke2fs: %w", err)
	}
	args := []string{
		"mke2fs", "-q", "-t", "ext4", "-L", "cleanvm-home", "-E", "root_owner=0:0", "-d", p.Root, p.Disk, p.Size,
	}
	return unix.Exec(program, args, os.Environ())
}
