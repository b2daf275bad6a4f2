package images

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"
)

// parallelImages is how many images are assembled at once: each is held in
// memory while it is.
const parallelImages = 2

// Handler returns an image registry that keeps its layers below dir.
func Handler(dir string) (http.Handler, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the registry's folder: %w", err)
	}
	return registry.New(
		registry.WithBlobHandler(registry.NewDiskBlobHandler(dir)),
		registry.Logger(log.New(io.Discard, "", 0)),
	), nil
}

// Publish assembles the images and pushes them to the registry at host:port.
func Publish(ctx context.Context, specs []Spec, registryHost, architecture string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelImages)
	for _, spec := range specs {
		group.Go(func() error { return publish(ctx, spec, registryHost, architecture) })
	}
	return group.Wait()
}

func publish(ctx context.Context, spec Spec, registryHost, architecture string) error {
	image, err := Build(spec, architecture)
	if err != nil {
		return err
	}
	for _, tag := range spec.Names {
		reference, err := name.ParseReference(registryHost+"/"+tag, name.Insecure)
		if err != nil {
			return fmt.Errorf("name of image %s: %w", strings.Join(spec.Names, ", "), err)
		}
		if err := remote.Write(reference, image, remote.WithContext(ctx)); err != nil {
			return fmt.Errorf("serve image %s: %w", tag, err)
		}
	}
	return nil
}
