package residue

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The tests run on a separate machine, from a cluster's point of view. It consists of namespaces without foreign
// processes, mounts or network devices, and of a root file system that stores all writes in a separate folder. So
// everything found there was left by the cluster, whatever happens on the host meanwhile. Cgroups and kernel settings
// cannot be separated; they are the host's.
const (
	// insideVariable is set if this program runs on that machine.
	insideVariable = "RESIDUE_MACHINE"
	// ownFolder is the tests' own folder there; snapshots skip it.
	ownFolder = "/residue"
)

// disk is the machine's root file system.
func disk() Disk {
	return Disk{Before: filepath.Join(ownFolder, "host"), Written: filepath.Join(ownFolder, "written"), Own: ownFolder}
}

func TestMain(m *testing.M) {
	if os.Getenv(insideVariable) != "" {
		if err := makeMachine(os.Getenv("LOCALCLUSTER_CACHE"), os.Getenv("LOCALCLUSTER_REPO")); err != nil {
			fmt.Fprintln(os.Stderr, "make a machine for the tests:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests need root: run `make test-cluster`, which asks for it")
		os.Exit(1)
	}
	stop := simulateOtherUsers()
	code, err := runInside()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// runInside runs this program again in new namespaces.
func runInside() (int, error) {
	command := exec.CommandContext(context.Background(), "/proc/self/exe", os.Args[1:]...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Env = append(os.Environ(), insideVariable+"=1", "TMPDIR="+filepath.Join(ownFolder, "tmp"))
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
	}
	err := command.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 1, fmt.Errorf("run the tests in namespaces of their own: %w", err)
	}
	return 0, nil
}

// mountStep is one call of mount(2).
type mountStep struct {
	source, target, kind string
	flags                uintptr
	options              string
}

// makeMachine sets up the namespaces. The cache's folder is the host's; the repository is readable.
func makeMachine(cache, repo string) error {
	if cache == "" || repo == "" {
		return errors.New("LOCALCLUSTER_BIN, LOCALCLUSTER_CACHE and LOCALCLUSTER_REPO are not set: run these tests by " +
			"`make test-cluster`")
	}
	points, err := mountPoints()
	if err != nil {
		return err
	}
	// First the own folder is mounted on a folder that exists on every machine.
	const base, root = "/mnt", "/mnt/root"
	steps := []mountStep{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"tmpfs", base, "tmpfs", 0, "mode=755"},
		{"overlay", root, "overlay", 0, "lowerdir=/,upperdir=/mnt/written,workdir=/mnt/work"},
		{base, root + ownFolder, "", unix.MS_BIND, ""},
		{"/", root + ownFolder + "/host", "", unix.MS_BIND, ""},
		{"proc", root + "/proc", "proc", 0, ""},
		{"/sys", root + "/sys", "", unix.MS_BIND | unix.MS_REC, ""},
		{"/dev", root + "/dev", "", unix.MS_BIND | unix.MS_REC, ""},
	}
	for _, point := range points {
		steps = append(steps, mountStep{point, root + point, "", unix.MS_BIND, ""})
	}
	for _, folder := range []string{repo, cache} {
		steps = append(steps, mountStep{folder, root + folder, "", unix.MS_BIND, ""})
	}
	for i, s := range steps {
		if err := unix.Mount(s.source, s.target, s.kind, s.flags, s.options); err != nil {
			return fmt.Errorf("mount %s on %s: %w", s.source, s.target, err)
		}
		if i == 1 {
			for _, folder := range []string{"root", "host", "written" + ownFolder, "work", "tmp"} {
				if err := os.MkdirAll(filepath.Join(base, folder), 0o755); err != nil {
					return err
				}
			}
		}
	}
	if err := enter(root); err != nil {
		return err
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(loopback)
}

// enter makes a folder the root.
func enter(root string) error {
	for _, step := range []func() error{
		func() error { return os.Chdir(root) },
		func() error { return unix.PivotRoot(".", ".") },
		func() error { return unix.Unmount(".", unix.MNT_DETACH) },
		func() error { return os.Chdir("/") },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("enter the machine's root: %w", err)
		}
	}
	return nil
}

// mountPoints lists the mounts on the host's root that belong to its disk: an overlay of the root omits them. /run
// stays empty, so that this machine has no systemd.
func mountPoints() ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var out []string
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		point := strings.Fields(scanner.Text())[4]
		covered := slices.ContainsFunc([]string{"/proc", "/sys", "/dev", "/run", "/tmp", "/mnt"}, func(folder string) bool {
			return point == folder || strings.HasPrefix(point, folder+"/")
		})
		if stat, err := os.Stat(point); point != "/" && !covered && err == nil && stat.IsDir() {
			out = append(out, point)
		}
	}
	return out, scanner.Err()
}
