package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// ErrMissing is wrapped by the error that lists the tools that the host lacks.
var ErrMissing = errors.New("the host lacks programs")

// tools maps the required host programs to their Debian packages.
func tools() map[string]string {
	return map[string]string{
		"qemu-system-x86_64": "qemu-system-x86",
		"qemu-img":           "qemu-utils",
		"mmdebstrap":         "mmdebstrap",
		"mke2fs":             "e2fsprogs",
		"apt-get":            "apt",
		"git":                "git",
		"go":                 "",
	}
}

// CheckHost returns an error with the packages that the host lacks. With install it runs apt-get to install them, and
// shows its output.
func CheckHost(ctx context.Context, install bool, log io.Writer) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: mmdebstrap builds the disks as root: run it as root", ErrMissing)
	}
	missing := map[string]bool{}
	for tool, name := range tools() {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		}
		if name == "" {
			return fmt.Errorf("%w: %s is not in the path: install it from https://go.dev/dl", ErrMissing, tool)
		}
		missing[name] = true
	}
	if len(missing) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(missing))
	line := append([]string{"apt-get", "install", "--yes", "--no-install-recommends"}, names...)
	if !install {
		return fmt.Errorf("%w: %s; install them with: %s (or add --install)", ErrMissing, strings.Join(names, ", "),
			strings.Join(line, " "))
	}
	return run(ctx, log, line[0], line[1:]...)
}

// run runs a tool and writes its output to the log.
func run(ctx context.Context, log io.Writer, name string, args ...string) error {
	fmt.Fprintf(log, "+ %s %s\n", name, strings.Join(args, " "))
	command := exec.CommandContext(ctx, name, args...)
	command.Stdout, command.Stderr = log, log
	if err := command.Run(); err != nil {
		return fmt.Errorf("run %s: %w", name, err)
	}
	return nil
}

// output runs a tool and returns its output.
func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
