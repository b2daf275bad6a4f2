package image

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
)

// Keys authenticate a machine and its users to each other.
type Keys struct {
	// Host is the machine's own key.
	Host ssh.Signer
	// User is the key for root and for the user.
	User ssh.Signer
	// UserFile is the file with the user's key, for the ssh command.
	UserFile string

	hostPEM []byte
}

// LoadKeys reads the keys of a folder, or creates them the first time.
func LoadKeys(dir string) (Keys, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Keys{}, fmt.Errorf("create the folder of keys: %w", err)
	}
	host, hostPEM, err := loadKey(filepath.Join(dir, "host"))
	if err != nil {
		return Keys{}, err
	}
	file := filepath.Join(dir, "user")
	user, _, err := loadKey(file)
	if err != nil {
		return Keys{}, err
	}
	return Keys{Host: host, User: user, UserFile: file, hostPEM: hostPEM}, nil
}

func loadKey(file string) (ssh.Signer, []byte, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = makeKey(file)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read a key: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("read the key %s (remove it to get a new one): %w", file, err)
	}
	return signer, raw, nil
}

func makeKey(file string) ([]byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "cleanvm")
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	raw := pem.EncodeToMemory(block)
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return nil, fmt.Errorf("write a key: %w", err)
	}
	return raw, nil
}

// authorized returns the line of authorized_keys for the user's key.
func (k Keys) authorized() string { return string(ssh.MarshalAuthorizedKey(k.User.PublicKey())) }

// identity identifies keys without their secrets.
func (k Keys) identity() string {
	return ssh.FingerprintSHA256(k.Host.PublicKey()) + " " + ssh.FingerprintSHA256(k.User.PublicKey())
}
