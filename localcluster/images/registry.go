package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"
)

// parallelImages is the number of images that are built in parallel: each is in memory meanwhile.
const parallelImages = 2

// Handler returns an image registry that stores its layers below dir.
func Handler(dir string) (http.Handler, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the registry's folder: %w", err)
	}
	return registry.New(
		registry.WithBlobHandler(registry.NewDiskBlobHandler(dir)),
		registry.Logger(log.New(io.Discard, "", 0)),
	), nil
}

// Publish builds the images and pushes them to the registry at host:port.
func Publish(ctx context.Context, specs []Spec, registryHost, architecture string) error {
	return publishAll(ctx, specs, registryHost, architecture)
}

// PublishOver builds the images and pushes them to the registry that listens on a Unix socket.
func PublishOver(ctx context.Context, socket string, specs []Spec, architecture string) error {
	transport := over(socket)
	defer transport.CloseIdleConnections()
	return publishAll(ctx, specs, "registry.local", architecture, remote.WithTransport(transport))
}

// over returns a transport whose connections go to a Unix socket, whatever the address of a request is.
func over(socket string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		path, closeFolder, err := shortPath(socket)
		if err != nil {
			return nil, err
		}
		defer closeFolder()
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
}

// Push sends an image for all its processors to its registry, with the credentials of `docker login`.
func Push(ctx context.Context, index Index) error {
	reference, err := name.ParseReference(index.Name)
	if err != nil {
		return fmt.Errorf("name of image %s: %w", index.Name, err)
	}
	return push(ctx, reference, index, remote.WithAuthFromKeychain(authn.DefaultKeychain))
}

// PushOver sends an image for all its processors to the registry that listens on a Unix socket. The registry in the name
// of the image has no effect.
func PushOver(ctx context.Context, socket string, index Index) error {
	reference, err := name.ParseReference(index.Name, name.Insecure)
	if err != nil {
		return fmt.Errorf("name of image %s: %w", index.Name, err)
	}
	transport := over(socket)
	defer transport.CloseIdleConnections()
	return push(ctx, reference, index, remote.WithTransport(transport))
}

func push(ctx context.Context, reference name.Reference, index Index, options ...remote.Option) error {
	if err := remote.WriteIndex(reference, index.Index, append(options, remote.WithContext(ctx))...); err != nil {
		return fmt.Errorf("push image %s: %w", index.Name, err)
	}
	return nil
}

// Listen opens a Unix socket for a registry that only its owner can use.
func Listen(ctx context.Context, socket string, owner int) (net.Listener, error) {
	path, closeFolder, err := shortPath(socket)
	if err != nil {
		return nil, err
	}
	defer closeFolder()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("open the registry's socket: %w", err)
	}
	if socket, ok := listener.(*net.UnixListener); ok {
		socket.SetUnlinkOnClose(false) // the path is valid only while the folder is open
	}
	if err := errors.Join(os.Chmod(socket, 0o600), os.Chown(socket, owner, -1)); err != nil {
		return nil, fmt.Errorf("change the owner of the registry's socket to user %d: %w", owner, err)
	}
	return listener, nil
}

// shortPath returns a path through its open folder: the path of a Unix socket may have 107 bytes (unix(7)), and a cache
// folder may be deeply nested.
func shortPath(path string) (short string, closeFolder func(), err error) {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, fmt.Errorf("open the socket's folder: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), filepath.Base(path)), func() { _ = folder.Close() }, nil
}

func publishAll(ctx context.Context, specs []Spec, registryHost, architecture string, options ...remote.Option) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelImages)
	options = append(options, remote.WithContext(ctx))
	for _, spec := range specs {
		group.Go(func() error { return publish(spec, registryHost, architecture, options) })
	}
	return group.Wait()
}

func publish(spec Spec, registryHost, architecture string, options []remote.Option) error {
	image, err := Build(spec, architecture)
	if err != nil {
		return err
	}
	for _, tag := range spec.Names {
		reference, err := name.ParseReference(registryHost+"/"+tag, name.Insecure)
		if err != nil {
			return fmt.Errorf("name of image %s: %w", strings.Join(spec.Names, ", "), err)
		}
		if err := remote.Write(reference, image, options...); err != nil {
			return fmt.Errorf("serve image %s: %w", tag, err)
		}
	}
	return nil
}
