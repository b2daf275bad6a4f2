package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kedify/argo-rollouts-plugin/localcluster/node"
)

const (
	// stopGrace is how long the inside may take to end by itself.
	stopGrace = 3 * time.Second
	// cgroupGrace is how long the kernel may take to end the last processes.
	cgroupGrace = 10 * time.Second
)

// Supervise runs one cluster until the context ends: it is the life of the
// supervisor process. It must be called on the program's main goroutine, locked
// to its thread: the kernel ends the cluster when that thread dies.
func Supervise(ctx context.Context, config node.Config, kubeconfigOwner int) (err error) {
	dir := config.Settings.Dir
	lock, err := acquireLock(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	status := Status{State: PhaseStarting, Bin: config.Settings.Bin, Logs: filepath.Join(dir, "logs"), Addresses: map[string]string{}}
	defer func() {
		if err != nil {
			status.State, status.Message = PhaseBroken, err.Error()
			err = errors.Join(err, writeStatus(dir, status), appendProgress(dir, node.Event{Time: time.Now(), State: node.Failed, Message: err.Error()}))
		}
	}()
	if err := os.MkdirAll(status.Logs, 0o755); err != nil {
		return fmt.Errorf("make the log folder: %w", err)
	}
	if err := createCgroup(config.Settings.Cgroup()); err != nil {
		return err
	}
	files, err := openListeners(config.Forwards, status.Addresses)
	if err != nil {
		return err
	}
	if err := writeStatus(dir, status); err != nil {
		return err
	}
	inside, events, err := startInside(config, files)
	if err != nil {
		return err
	}
	return watch(ctx, config, kubeconfigOwner, inside, events, &status)
}

// openListeners opens one listener on a free loopback port for each forward.
func openListeners(forwards []node.Forward, addresses map[string]string) ([]*os.File, error) {
	var files []*os.File
	for _, f := range forwards {
		listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return nil, fmt.Errorf("open a port for %s: %w", f.Name, err)
		}
		file, err := listener.File()
		if err != nil {
			return nil, fmt.Errorf("pass the port for %s on: %w", f.Name, err)
		}
		addresses[f.Name] = listener.Addr().String()
		files = append(files, file)
		_ = listener.Close() // the copy stays open
	}
	return files, nil
}

// startInside starts the first process of the cluster's namespaces.
func startInside(config node.Config, listeners []*os.File) (*exec.Cmd, io.Reader, error) {
	dir := config.Settings.Dir
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("open the progress pipe: %w", err)
	}
	defer writer.Close()
	command := exec.Command("/proc/self/exe", "inside", "init", filepath.Join(dir, PlanFile), strconv.Itoa(len(listeners))) //nolint:noctx // our own program; ended by signal
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	command.ExtraFiles = append([]*os.File{writer}, listeners...)
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
		Setsid:     true,
	}
	runtime.LockOSThread() // see Supervise: the death signal follows this thread
	if err := command.Start(); err != nil {
		return nil, nil, fmt.Errorf("start the cluster's namespaces: %w", err)
	}
	for _, listener := range listeners {
		_ = listener.Close()
	}
	if err := enterCgroup(config.Settings.Cgroup(), command.Process.Pid); err != nil {
		_ = command.Process.Kill()
		return nil, nil, err
	}
	return command, reader, nil
}

// watch records the inside's events until it ends or is told to.
func watch(ctx context.Context, config node.Config, owner int, inside *exec.Cmd, events io.Reader, status *Status) error {
	stop := context.AfterFunc(ctx, func() {
		_ = inside.Process.Signal(unix.SIGTERM)
		time.AfterFunc(stopGrace, func() { _ = inside.Process.Kill() })
	})
	defer stop()
	dir := config.Settings.Dir
	var failure string
	scanner := bufio.NewScanner(events)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var event node.Event
		if err := json.Unmarshal(scanner.Bytes(), &event); err != nil {
			return fmt.Errorf("read the cluster's progress: %w", err)
		}
		switch event.State {
		case node.Failed:
			failure = event.Message
			continue // recorded below, once all has ended
		case node.Ready:
			if status.State != PhaseRunning {
				kubeconfig, err := hostKubeconfig(config.Settings, status.Addresses[APIAddress], owner)
				if err != nil {
					return err
				}
				status.State, status.Kubeconfig = PhaseRunning, kubeconfig
			}
		case node.Starting:
		}
		status.Message = event.Message
		if err := errors.Join(writeStatus(dir, *status), appendProgress(dir, event)); err != nil {
			return err
		}
	}
	waitErr := inside.Wait()
	if err := removeCgroup(config.Settings.Cgroup(), cgroupGrace); err != nil {
		return err
	}
	switch {
	case failure != "":
		return errors.New(failure)
	case ctx.Err() != nil:
		return nil
	default:
		return fmt.Errorf("the inside of the cluster ended: %w", waitErr)
	}
}

func appendProgress(dir string, event node.Event) error {
	file, err := os.OpenFile(filepath.Join(dir, ProgressFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("record progress: %w", err)
	}
	defer file.Close()
	if err := json.NewEncoder(file).Encode(event); err != nil {
		return fmt.Errorf("record progress: %w", err)
	}
	return nil
}
