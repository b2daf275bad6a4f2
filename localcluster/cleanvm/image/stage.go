package image

import (
	"fmt"
	"os"
	"path/filepath"
)

// stagedFile is one file that is copied into the new Debian.
type stagedFile struct {
	path, content string
	mode          os.FileMode
}

// stage writes the files of the new Debian: below early those that must exist before packages are installed, below late
// all others.
func (b Builder) stage(how recipe, dir string) error {
	files := []stagedFile{
		{"early/initramfs-tools/conf.d/modules", "MODULES=list\n", 0o644},
		{"early/initramfs-tools/modules", "virtio_pci\nvirtio_blk\nvirtio_net\next4\n", 0o644},
		{"late/customise", how.Script, 0o755},
		{"late/etc/profile.d/go.sh", "export PATH=$PATH:/usr/local/go/bin\n", 0o644},
		{"late/etc/profile.d/registries.sh", how.Network.profile(), 0o644},
		{"late/etc/ssh/ssh_host_ed25519_key", string(b.Keys.hostPEM), 0o600},
		{"late/etc/ssh/authorized_keys/root", b.Keys.authorized(), 0o644},
		{"late/etc/ssh/authorized_keys/" + User, b.Keys.authorized(), 0o644},
		{
			"late/etc/ssh/sshd_config.d/cleanvm.conf",
			"AuthorizedKeysFile /etc/ssh/authorized_keys/%u\nPasswordAuthentication no\nHostKey /etc/ssh/ssh_host_ed25519_key\n",
			0o644,
		},
	}
	for name, content := range how.Network.Authorities {
		files = append(files, stagedFile{"late/usr/local/share/ca-certificates/" + name, content, 0o644})
	}
	for _, file := range files {
		path := filepath.Join(dir, file.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("create a folder for the new Debian: %w", err)
		}
		if err := os.WriteFile(path, []byte(file.content), file.mode); err != nil {
			return fmt.Errorf("write a file for the new Debian: %w", err)
		}
	}
	return nil
}
