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

	"github.com/kedify/argo-rollouts-plugin/localcluster/cgroup"
	"github.com/kedify/argo-rollouts-plugin/localcluster/logtail"
	"github.com/kedify/argo-rollouts-plugin/localcluster/node"
)

const (
	// stopGrace is how long the inside may take to end by itself.
	stopGrace = 3 * time.Second
	// cgroupGrace is how long the kernel may take to end the last processes.
	cgroupGrace = 10 * time.Second
)

// Supervise runs one cluster until the context ends or until its owner requests the end. It is the main function of the
// supervisor process. Call it on the program's main goroutine, locked to its thread: the kernel kills the cluster when
// that thread dies. The owner gets the files of a failed start.
func Supervise(ctx context.Context, config node.Config) (err error) {
	began := time.Now()
	dir := config.Settings.Dir
	lock, err := acquireLock(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { awaitStopRequest(ctx, dir); stop() }()
	status := Status{
		State: PhaseStarting, Bin: config.Settings.Bin, Logs: filepath.Join(dir, "logs"), Addresses: map[string]string{},
	}
	defer func() {
		if err != nil {
			status.State, status.Message, status.Kubeconfig, status.Addresses, status.Node = PhaseBroken, err.Error(), "", nil, 0
			failed := node.Event{Time: time.Now(), State: node.Failed, Message: err.Error()}
			err = errors.Join(err, keepLogs(dir, config.Owner), writeStatus(dir, status), appendProgress(dir, failed))
		}
	}()
	if err := os.MkdirAll(status.Logs, 0o755); err != nil {
		return fmt.Errorf("create the log folder: %w", err)
	}
	folder, err := cgroup.Create(config.Settings)
	if err != nil {
		return errors.Join(err, cgroup.Remove(config.Settings, cgroupGrace))
	}
	files, err := openListeners(config.Forwards, status.Addresses)
	if err != nil {
		return err
	}
	if err := writeStatus(dir, status); err != nil {
		return err
	}
	inside, events, err := startInside(config, folder, files)
	if err != nil {
		return errors.Join(err, cgroup.Remove(config.Settings, cgroupGrace))
	}
	status.Node = inside.Process.Pid
	w := watcher{config: config, began: began, status: &status}
	return w.watch(ctx, inside, events)
}

// openListeners opens one listener on a free loopback port per forward.
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

// startInside starts the first process of the cluster's namespaces, in the cgroup of a folder if that is set.
func startInside(config node.Config, folder string, listeners []*os.File) (*exec.Cmd, io.Reader, error) {
	dir := config.Settings.Dir
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("open the progress pipe: %w", err)
	}
	defer writer.Close()
	command := exec.Command("/proc/self/exe", "inside", "init", filepath.Join(dir, PlanFile), strconv.Itoa(len(listeners))) //nolint:noctx // this program itself; ended by signal
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	command.ExtraFiles = append([]*os.File{writer}, listeners...)
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
		Setsid:     true,
	}
	if folder != "" {
		open, err := os.Open(folder)
		if err != nil {
			return nil, nil, fmt.Errorf("open the cluster's cgroup: %w", err)
		}
		defer open.Close()
		command.SysProcAttr.UseCgroupFD, command.SysProcAttr.CgroupFD = true, int(open.Fd())
	}
	runtime.LockOSThread() // see Supervise: the death signal follows this thread
	if err := command.Start(); err != nil {
		return nil, nil, fmt.Errorf("start the cluster's namespaces: %w", err)
	}
	for _, listener := range listeners {
		_ = listener.Close()
	}
	return command, reader, nil
}

// watcher follows the inside of a cluster and maintains its record.
type watcher struct {
	config node.Config
	began  time.Time
	status *Status
}

// watch records the inside's events until the inside ends or the context does. When it returns, the cluster's processes
// and its cgroup no longer exist.
func (w watcher) watch(ctx context.Context, inside *exec.Cmd, events io.Reader) error {
	stop := context.AfterFunc(ctx, func() {
		_ = inside.Process.Signal(unix.SIGTERM)
		time.AfterFunc(stopGrace, func() { _ = inside.Process.Kill() })
	})
	defer stop()
	failure, err := w.record(events)
	if err != nil {
		_ = inside.Process.Kill()
	}
	waitErr := inside.Wait()
	err = errors.Join(err, cgroup.Remove(w.config.Settings, cgroupGrace))
	switch {
	case err != nil:
		return err
	case failure != "" && ctx.Err() == nil:
		return errors.New(failure)
	case ctx.Err() != nil:
		return removeIfRequested(w.config.Settings.Dir)
	default:
		return fmt.Errorf("the inside of the cluster ended: %w\n%s", waitErr, logtail.Tail(w.config.Settings.Path(LogFile)))
	}
}

// record stores the inside's events until there are no more, and returns the inside's error if it failed.
func (w watcher) record(events io.Reader) (failure string, err error) {
	dir := w.config.Settings.Dir
	scanner := bufio.NewScanner(events)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var event node.Event
		if err := json.Unmarshal(scanner.Bytes(), &event); err != nil {
			return failure, fmt.Errorf("read the cluster's progress: %w", err)
		}
		if event.State == node.Failed {
			failure = event.Message
			continue // recorded by Supervise at the end
		}
		if event.State == node.Ready && w.status.State != PhaseRunning {
			kubeconfig, err := hostKubeconfig(w.config.Settings, w.status.Addresses[APIAddress], w.config.Owner)
			if err != nil {
				return failure, err
			}
			w.status.State, w.status.Kubeconfig = PhaseRunning, kubeconfig
			w.status.StartSeconds = time.Since(w.began).Seconds()
		}
		w.status.Message = event.Message
		if err := errors.Join(writeStatus(dir, *w.status), appendProgress(dir, event)); err != nil {
			return failure, err
		}
	}
	return failure, scanner.Err()
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
