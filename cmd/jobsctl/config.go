package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// fileConfig is what a configuration file can hold.
type fileConfig struct {
	Broker string `yaml:"broker"`
}

// brokerURL is the store's URL by flag, environment or file, in this order.
// Its errors never quote it: it may hold a password.
func (a *app) brokerURL() (string, error) {
	if a.url != "" {
		return a.url, nil
	}
	if url := a.getenv("JOBS_BROKER"); url != "" {
		return url, nil
	}
	cfg, path, err := a.readConfig()
	if err != nil {
		return "", err
	}
	if cfg.Broker == "" {
		return "", &usageError{fmt.Sprintf("no store is given: use --broker, set JOBS_BROKER, or write \"broker: URL\" into %s", path)}
	}
	return cfg.Broker, nil
}

// readConfig reads the configuration file. One that was not asked for need not
// be there.
func (a *app) readConfig() (cfg fileConfig, path string, err error) {
	if path = a.config; path == "" {
		dir, err := a.home()
		if err != nil {
			return cfg, "the file --config", nil
		}
		path = filepath.Join(dir, "jobsctl", "config.yaml")
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && a.config == "" {
		return cfg, path, nil
	}
	if err != nil {
		return cfg, path, &usageError{err.Error()}
	}
	d := yaml.NewDecoder(bytes.NewReader(content))
	d.KnownFields(true)
	if err := d.Decode(&cfg); err != nil && !errors.Is(err, io.EOF) {
		return cfg, path, &usageError{fmt.Sprintf("%s is not a configuration: it has lines \"name: value\", with the name broker", path)}
	}
	return cfg, path, nil
}
