package release

import (
	"fmt"
	"io"
	"io/fs"
	"path"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// WriteInstall writes install.yaml: the objects of the kustomization in a folder, with this project's images of a
// version in a registry. It reads nothing outside of the folder.
func WriteInstall(folder fs.FS, registry, version string, out io.Writer) error {
	const root = "/config"
	memory := filesys.MakeFsInMemory()
	if err := manifests(folder, registry, version, func(name, text string) error {
		return memory.WriteFile(path.Join(root, name), []byte(text))
	}); err != nil {
		return fmt.Errorf("read the manifests: %w", err)
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // the kustomization has an order
	objects, err := krusty.MakeKustomizer(options).Run(memory, root)
	if err != nil {
		return fmt.Errorf("build the kustomization: %w", err)
	}
	text, err := objects.AsYaml()
	if err != nil {
		return fmt.Errorf("encode the objects: %w", err)
	}
	_, err = fmt.Fprintf(out, "# All components, the CustomResourceDefinition and namespace keda, version %s:\n"+
		"# kubectl apply --server-side --filename install.yaml\n%s", version, text)
	return err
}
