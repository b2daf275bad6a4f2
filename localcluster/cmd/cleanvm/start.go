package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cleanvm/image"
	"github.com/kedify/argo-rollouts-plugin/localcluster/cleanvm/machine"
	"github.com/kedify/argo-rollouts-plugin/localcluster/logtail"
)

const (
	// bootTimeout bounds a boot, before it is multiplied by the patience.
	bootTimeout = 2 * time.Minute
	// emulationPatience multiplies timeouts under emulation.
	emulationPatience = 6
	// keptRuns is the number of old runs that are kept.
	keptRuns = 10
	// imageLog is the log of the tools that build disks.
	imageLog = "image.log"
)

// options are the flags.
type options struct {
	repo, cache, accel, model, term, tests string
	memoryMB, cpus                         int
	carry, install, dirty, keep, docker    bool
	patience                               float64
	timeout                                time.Duration
}

// guest is a running machine with root logged in.
type guest struct {
	*machine.Machine
	root  *machine.Session
	login machine.Login
	// dir is the folder of this run.
	dir      string
	patience float64
	key      string
	home     string
	lock     io.Closer
}

// end stops the machine and removes the disk of /home, which each run rebuilds.
func (g *guest) end(ctx context.Context) error {
	return errors.Join(g.Stop(ctx), os.Remove(g.home), g.lock.Close())
}

// builder checks the host and creates the folder of the run. Until the returned file is closed, no other cleanvm runs
// in the same cache.
func (o *options) builder(ctx context.Context) (b image.Builder, run string, lock io.Closer, err error) {
	if err := image.CheckHost(ctx, o.install, os.Stdout); err != nil {
		return b, "", nil, err
	}
	if o.cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return b, "", nil, fmt.Errorf("find the cache folder (set --cache): %w", err)
		}
		o.cache = filepath.Join(user, "kedify-localcluster")
	}
	dir, err := filepath.Abs(filepath.Join(o.cache, "cleanvm"))
	if err != nil {
		return b, "", nil, fmt.Errorf("find the cache folder: %w", err)
	}
	if b.Keys, err = image.LoadKeys(filepath.Join(dir, "keys")); err != nil {
		return b, "", nil, err
	}
	if lock, err = lockFolder(dir); err != nil {
		return b, "", nil, err
	}
	if run, err = makeRun(filepath.Join(dir, "runs"), time.Now()); err != nil {
		return b, "", nil, errors.Join(err, lock.Close())
	}
	b.Dir = filepath.Join(dir, "disks")
	if b.Log, err = os.Create(filepath.Join(run, imageLog)); err != nil {
		return b, "", nil, errors.Join(fmt.Errorf("create the log of the disks: %w", err), lock.Close())
	}
	return b, run, lock, nil
}

// lockFolder prevents concurrent changes of the disks. The kernel releases the lock when this process ends.
func lockFolder(dir string) (io.Closer, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another clean machine runs from %s: stop it, or set --cache: %w", dir, err),
			file.Close())
	}
	return file, nil
}

// makeRun creates a folder for the files of a run. It keeps the most recent old runs, without the disks of interrupted
// ones.
func makeRun(dir string, now time.Time) (string, error) {
	old, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return "", fmt.Errorf("list the old runs: %w", err)
	}
	disks, err := filepath.Glob(filepath.Join(dir, "*", "*.qcow2"))
	if err != nil {
		return "", fmt.Errorf("list the disks of old runs: %w", err)
	}
	for _, path := range append(disks, old[:max(0, len(old)-keptRuns)]...) {
		if err := os.RemoveAll(path); err != nil {
			return "", fmt.Errorf("remove an old run: %w", err)
		}
	}
	run := filepath.Join(dir, now.UTC().Format("20060102-150405"))
	if err := os.MkdirAll(run, 0o755); err != nil {
		return "", fmt.Errorf("create the run's folder: %w", err)
	}
	return run, nil
}

// start builds the disks and boots.
func (o *options) start(ctx context.Context) (*guest, error) {
	ways, err := acceleration(o.accel)
	if err != nil {
		return nil, err
	}
	b, dir, lock, err := o.builder(ctx)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	progress("building the disks (about a minute each the first time)")
	base, home, err := o.disks(ctx, b)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, logtail.Tail(filepath.Join(dir, imageLog))), lock.Close())
	}
	progress("built the disks in %s", time.Since(begun).Round(time.Second))
	g := &guest{dir: dir, home: home, lock: lock, key: b.Keys.UserFile, login: machine.Login{
		User: "root", Key: b.Keys.User, Host: b.Keys.Host.PublicKey(),
	}}
	for _, way := range ways {
		config := machine.Config{
			Kernel: base.Kernel, Initrd: base.Initrd, Root: base.Disk, Home: home, Dir: dir,
			MemoryMB: o.memoryMB, CPUs: o.cpus, Accel: way, Model: o.model,
		}
		if !o.docker {
			config.Mask = []string{"docker.service", "docker.socket", "containerd.service"}
		}
		err = g.try(ctx, config, o.patience)
		switch {
		case err == nil:
			return g, nil
		case !errors.Is(err, machine.ErrNoKVM):
			return nil, errors.Join(err, lock.Close())
		}
		progress("%v", err)
		if len(ways) > 1 {
			progress("QEMU emulates the processor instead, many times slower")
		}
	}
	return nil, errors.Join(err, lock.Close())
}

func (o *options) disks(ctx context.Context, b image.Builder) (image.Base, string, error) {
	base, err := b.Base(ctx, false)
	if err != nil {
		return image.Base{}, "", err
	}
	home, err := b.Home(ctx, base, filepath.Join(o.cache, "parts"), o.carry)
	return base, home, err
}

// try boots with one acceleration.
func (g *guest) try(ctx context.Context, config machine.Config, patience float64) error {
	g.patience = patience
	switch {
	case patience != 0:
	case config.Accel == machine.KVM:
		g.patience = 1
	default:
		g.patience = emulationPatience
	}
	if config.Accel == machine.KVM {
		kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("%w: %w", machine.ErrNoKVM, err)
		}
		_ = kvm.Close()
	}
	begun := time.Now()
	m, err := machine.Start(ctx, config)
	if err != nil {
		return err
	}
	g.Machine = m
	waiting, cancel := context.WithTimeout(ctx, time.Duration(float64(bootTimeout)*g.patience))
	defer cancel()
	g.root, err = m.Await(waiting, g.login)
	if err != nil {
		err = fmt.Errorf("boot (%s): %w", config.Accel, err)
		if !errors.Is(err, machine.ErrNoKVM) {
			err = fmt.Errorf("%w\n%s", err, logtail.Tail(filepath.Join(g.dir, "console.log")))
		}
		return errors.Join(err, m.Stop(ctx))
	}
	progress("the machine is up after %s (%s)", time.Since(begun).Round(time.Second), config.Accel)
	return nil
}

// boot boots and leaves the machine running for the developer.
func (o *options) boot(ctx context.Context) error {
	g, err := o.start(ctx)
	if err != nil {
		return err
	}
	g.await(ctx)
	return g.end(ctx)
}

// await keeps the machine running until the developer or the machine ends it.
func (g *guest) await(ctx context.Context) {
	for _, user := range []string{image.User, "root"} {
		progress("ssh -i %s -p %d -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no %s@127.0.0.1", g.key, g.Port,
			user)
	}
	progress("%s's password is: %s", image.User, image.Password)
	progress("Ctrl-C stops the machine")
	select {
	case <-ctx.Done():
	case <-g.Exited():
	}
}
