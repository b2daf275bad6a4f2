package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrNoKVM is wrapped by the error of a machine that KVM cannot run.
var ErrNoKVM = errors.New("KVM cannot run an unmodified kernel here")

// Acceleration is the method by which QEMU executes the guest's instructions.
type Acceleration string

const (
	// KVM executes them on the processor.
	KVM Acceleration = "kvm"
	// Emulation translates them: it works everywhere and is many times slower.
	Emulation Acceleration = "tcg"
)

// stopTimeout bounds the shutdown of a machine.
const stopTimeout = 20 * time.Second

// Config describes a machine.
type Config struct {
	// Kernel and Initrd are the boot files.
	Kernel, Initrd string
	// Root and Home are raw disks. They are only read.
	Root, Home string
	// Dir is a folder for the machine's own files.
	Dir string
	// MemoryMB is the memory in MiB, CPUs the number of processors.
	MemoryMB, CPUs int
	// Mask are systemd units that do not start.
	Mask []string
	// Accel is the method of execution. Model is the emulated processor.
	Accel Acceleration
	Model string
}

// Machine is a running virtual machine.
type Machine struct {
	// Accel is the method of execution.
	Accel Acceleration
	// Port is the ssh port on 127.0.0.1.
	Port int

	process *exec.Cmd
	monitor *monitor
	exited  chan struct{}
	disks   []string
	log     string
}

// Start starts QEMU. The kernel kills QEMU when the calling thread ends, so that no machine outlives this program: call
// Start from a locked thread.
func Start(ctx context.Context, c Config) (*Machine, error) {
	m := &Machine{Accel: c.Accel, exited: make(chan struct{}), log: filepath.Join(c.Dir, "qemu.log")}
	for name, base := range map[string]string{"root": c.Root, "home": c.Home} {
		disk := filepath.Join(c.Dir, name+".qcow2")
		command := exec.CommandContext(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", base, disk)
		if out, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("create a disk for the run: %w: %s", err, out)
		}
		m.disks = append(m.disks, disk)
	}
	if err := m.launch(c); err != nil {
		return nil, err
	}
	if err := m.connect(ctx); err != nil {
		if c.Accel == KVM {
			err = fmt.Errorf("%w: %w", ErrNoKVM, err)
		}
		return nil, errors.Join(err, m.Stop(ctx))
	}
	return m, nil
}

func (m *Machine) launch(c Config) error {
	log, err := os.Create(m.log)
	if err != nil {
		return fmt.Errorf("make QEMU's log: %w", err)
	}
	defer log.Close()
	m.process = exec.Command("qemu-system-x86_64", c.arguments()...) //nolint:noctx // Stop shuts it down
	m.process.Stderr = log
	// QEMU has a process group of its own: Ctrl-C is for this program, which stops QEMU.
	m.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	in, err := m.process.StdinPipe()
	if err != nil {
		return fmt.Errorf("reach QEMU: %w", err)
	}
	out, err := m.process.StdoutPipe()
	if err != nil {
		return fmt.Errorf("reach QEMU: %w", err)
	}
	if err := m.process.Start(); err != nil {
		return fmt.Errorf("start QEMU: %w", err)
	}
	m.monitor = newMonitor(in, out)
	go func() {
		_ = m.process.Wait() // its messages are in the log
		close(m.exited)
	}()
	return nil
}

// arguments returns QEMU's arguments.
func (c Config) arguments() []string {
	line := []string{"root=LABEL=cleanvm-root", "rw", "console=ttyS0", "quiet", "systemd.show_status=0"}
	if c.Accel == Emulation {
		line = append(line, "mitigations=off")
	}
	for _, unit := range c.Mask {
		line = append(line, "systemd.mask="+unit)
	}
	args := []string{
		"-machine", "q35", "-m", strconv.Itoa(c.MemoryMB), "-smp", strconv.Itoa(c.CPUs),
		"-display", "none", "-no-reboot", "-qmp", "stdio", "-serial", "file:" + filepath.Join(c.Dir, "console.log"),
		"-kernel", c.Kernel, "-initrd", c.Initrd,
		"-append", strings.Join(line, " "),
		"-netdev", "user,id=net,hostfwd=tcp:127.0.0.1:0-:22", "-device", "virtio-net-pci,netdev=net",
		"-device", "virtio-rng-pci",
	}
	// The content of a throw-away disk need not reach the host's disk.
	for _, name := range []string{"root", "home"} {
		args = append(args, "-drive", "if=virtio,cache=unsafe,format=qcow2,file="+filepath.Join(c.Dir, name+".qcow2"))
	}
	if c.Accel == KVM {
		return append(args, "-accel", "kvm", "-cpu", "host")
	}
	return append(args, "-accel", "tcg,thread=multi,tb-size=1024", "-cpu", c.Model)
}

// connect opens the monitor and reads the port that QEMU has chosen.
func (m *Machine) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := m.monitor.execute(ctx, "qmp_capabilities", map[string]any{}, nil); err != nil {
		printed, _ := os.ReadFile(m.log)
		return fmt.Errorf("start QEMU: %w: %s", err, bytes.TrimSpace(printed))
	}
	table, err := m.monitor.human(ctx, "info usernet")
	if err != nil {
		return fmt.Errorf("query the ssh port: %w", err)
	}
	m.Port, err = forwarded(table)
	return err
}

// forwarded parses the host's port from the monitor's list of connections.
func forwarded(table string) (int, error) {
	found := regexp.MustCompile(`HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)`).FindStringSubmatch(table)
	if found == nil {
		return 0, fmt.Errorf("QEMU has not opened an ssh port:\n%s", table)
	}
	return strconv.Atoi(found[1])
}

// check returns an error if the machine no longer runs. When KVM fails, the machine is paused with an internal error.
func (m *Machine) check(ctx context.Context) error {
	select {
	case <-m.exited:
		if m.Accel == KVM {
			return fmt.Errorf("%w: QEMU has ended", ErrNoKVM)
		}
		return errors.New("QEMU has ended")
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	status, err := m.monitor.status(ctx)
	switch {
	case err != nil:
		return err
	case status == "internal-error" && m.Accel == KVM:
		return fmt.Errorf("%w: QEMU is paused (%s)", ErrNoKVM, status)
	case status != "running" && status != "prelaunch":
		return fmt.Errorf("the machine is %s", status)
	}
	return nil
}

// Stop stops the machine and removes the data that it wrote to its disks, even after the context has ended.
func (m *Machine) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	_ = m.monitor.execute(ctx, "quit", map[string]any{}, nil) // it may have ended already
	select {
	case <-m.exited:
	case <-ctx.Done():
		_ = m.process.Process.Kill()
		<-m.exited
	}
	for _, disk := range m.disks {
		if err := os.Remove(disk); err != nil {
			return fmt.Errorf("remove the disk of the run: %w", err)
		}
	}
	return nil
}

// Exited is closed when the machine has ended.
func (m *Machine) Exited() <-chan struct{} { return m.exited }
