package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/localcluster/images"
	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
	"github.com/kedify/argo-rollouts-plugin/localcluster/release"
)

// registry is the folder of a registry of this project's images in the manifests.
const registry = product.Registry + "/" + product.Organization

// imagesRequest contains the options of the images command.
type imagesRequest struct {
	// registry is the registry with a folder. tag is the tag of all images.
	registry, tag string
	// release contains the images' labels about their source.
	release product.Release
	// architectures are the processors, named as GOARCH.
	architectures []string
	// images are the names of the images.
	images []string
}

func imagesCommand(l *location) *cobra.Command {
	r := imagesRequest{images: product.Published()}
	var push bool
	var socket string
	command := &cobra.Command{
		Use:   "images FOLDER",
		Short: "Build this project's images into a folder: an OCI layout, an archive that `docker load` reads, and SBOMs",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := l.resolve(); err != nil {
				return err
			}
			folder, err := filepath.Abs(args[0])
			if err != nil {
				return fmt.Errorf("the folder for the images: %w", err)
			}
			built, err := buildImages(c.Context(), l.repo, folder, r)
			if err != nil {
				return err
			}
			if err := saveImages(built, folder); err != nil {
				return err
			}
			if err := pushImages(c.Context(), built, push, socket); err != nil {
				return err
			}
			return printImages(c.OutOrStdout(), built)
		},
	}
	flags := command.Flags()
	flags.StringVar(&r.registry, "registry", registry, "`REGISTRY/FOLDER` of the images' names")
	flags.StringVar(&r.tag, "tag", "dev", "tag of the images")
	flags.StringVar(&r.release.Version, "release", "", "`VERSION` of the programs and the images")
	flags.StringVar(&r.release.Revision, "revision", "", "source `COMMIT` of the images, for their labels")
	flags.StringSliceVar(&r.architectures, "architecture", []string{"amd64", "arm64"},
		"processors of the images, as GOARCH")
	flags.BoolVar(&push, "push", false, "push the images to the registry, too, with the credentials of `docker login`")
	flags.StringVar(&socket, "socket", "",
		"push the images to the registry that listens on this Unix `SOCKET`, such as that of an embedded cluster")
	return command
}

// pushImages pushes images to the registry in their names, to the one that listens on a socket, or to none.
func pushImages(ctx context.Context, built []images.Index, push bool, socket string) error {
	for _, index := range built {
		if push {
			if err := images.Push(ctx, index); err != nil {
				return err
			}
		}
		if socket != "" {
			if err := images.PushOver(ctx, socket, index); err != nil {
				return err
			}
		}
	}
	return nil
}

// buildImages builds the programs of images into a folder, and builds the images.
func buildImages(ctx context.Context, repo, folder string, r imagesRequest) ([]images.Index, error) {
	var programs []product.Program
	for _, image := range r.images {
		programs = append(programs, product.Programs(image)...)
	}
	built := map[string]map[product.Program]string{}
	for _, architecture := range r.architectures {
		dir := filepath.Join(folder, "linux-"+architecture)
		err := compile(ctx,
			compilation{repo: repo, dir: dir, architecture: architecture, version: r.release.Version, programs: programs})
		if err != nil {
			return nil, err
		}
		built[architecture] = map[product.Program]string{}
		for _, program := range programs {
			built[architecture][program] = filepath.Join(dir, string(program))
		}
	}
	licenses, err := release.LocalLicenses(ctx, repo)
	if err != nil {
		return nil, err
	}
	var out []images.Index
	for _, image := range r.images {
		modules, err := writeBill(folder, image, r, built, licenses)
		if err != nil {
			return nil, err
		}
		thirdParty, err := writeLicenses(folder, image, modules, licenses)
		if err != nil {
			return nil, err
		}
		name := image + ":" + r.tag
		specs := map[string]images.Spec{}
		for _, architecture := range r.architectures {
			spec := product.Image(image, built[architecture], name)
			spec.Files = append(spec.Files, product.Documents(repo, thirdParty)...)
			spec.Labels = r.release.Labels(image)
			specs[architecture] = spec
		}
		index, err := images.BuildIndex(r.registry+"/"+name, specs)
		if err != nil {
			return nil, err
		}
		out = append(out, index)
	}
	return out, nil
}

// writeBill writes the software bill of materials of an image to sbom/IMAGE.cdx.json in a folder, where IMAGE is the
// last part of its name. It returns the modules in the image.
func writeBill(
	folder, image string, r imagesRequest, built map[string]map[product.Program]string, licenses release.Licenses,
) (modules []release.Module, err error) {
	var binaries []string
	for _, architecture := range r.architectures {
		for _, program := range product.Programs(image) {
			binaries = append(binaries, built[architecture][program])
		}
	}
	version := cmp.Or(r.release.Version, r.tag)
	err = writeFile(filepath.Join(folder, "sbom", path.Base(image)+".cdx.json"), func(out io.Writer) (err error) {
		modules, err = release.WriteImageBill(r.registry+"/"+image, version, binaries, licenses, out)
		return err
	})
	return modules, err
}

// writeLicenses writes the licenses of an image's modules to licenses/IMAGE/third-party-licenses.txt in a folder, where
// IMAGE is the last part of its name, and returns the path.
func writeLicenses(
	folder, image string, modules []release.Module, licenses release.Licenses,
) (file string, err error) {
	file = filepath.Join(folder, "licenses", path.Base(image), "third-party-licenses.txt")
	return file, writeFile(file, func(out io.Writer) error {
		return release.WriteThirdParty(modules, licenses, out)
	})
}

// writeFile writes a file and its folder, completely or with an error.
func writeFile(file string, content func(out io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("create the folder of %s: %w", file, err)
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("create the file: %w", err)
	}
	return errors.Join(content(out), out.Close())
}

// saveImages writes the images into a folder and replaces the existing ones.
func saveImages(built []images.Index, folder string) error {
	layout := filepath.Join(folder, "oci")
	if err := os.RemoveAll(layout); err != nil {
		return fmt.Errorf("replace the image layout: %w", err)
	}
	if err := images.SaveLayout(built, layout); err != nil {
		return err
	}
	archive := filepath.Join(folder, "images.tar")
	if err := os.Remove(archive); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the archive of the images: %w", err)
	}
	if _, found := built[0].Images[runtime.GOARCH]; !found {
		return nil // none of them would run here
	}
	return images.SaveArchive(built, runtime.GOARCH, archive)
}

// printImages prints the names of the images, and for each processor the digest and the size of what a node pulls.
func printImages(out io.Writer, built []images.Index) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "IMAGE\tPLATFORM\tMB\tDIGEST")
	for _, index := range built {
		digest, err := index.Index.Digest()
		if err != nil {
			return fmt.Errorf("digest of image %s: %w", index.Name, err)
		}
		fmt.Fprintf(table, "%s\tall\t\t%s\n", index.Name, digest)
		for _, architecture := range slices.Sorted(maps.Keys(index.Images)) {
			digest, err := index.Images[architecture].Digest()
			if err != nil {
				return fmt.Errorf("digest of image %s: %w", index.Name, err)
			}
			size, err := images.Size(index.Images[architecture])
			if err != nil {
				return fmt.Errorf("size of image %s: %w", index.Name, err)
			}
			fmt.Fprintf(table, "\tlinux/%s\t%.1f\t%s\n", architecture, float64(size)/1e6, digest)
		}
	}
	return table.Flush()
}
