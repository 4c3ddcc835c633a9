package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fileConfig is the content of a configuration file: stores by name.
type fileConfig struct {
	Current  string                 `yaml:"current,omitempty"` // the context used when none is named
	Contexts map[string]storeConfig `yaml:"contexts"`
}

type storeConfig struct {
	Broker string `yaml:"broker"` // URL
}

// storeSource is the selected store, and what selected it. Errors never quote the URL:
// it may hold a password.
type storeSource struct {
	url     string
	context string // empty if the store was given by its URL
	by      string // the flag, variable or file that named it
}

// source returns the store selected by flag, environment or file, in this order.
func (a *app) source() (storeSource, error) {
	if a.url != "" && a.context != "" {
		return storeSource{}, misuse("give --broker or --context, not both")
	}
	if a.url != "" {
		return storeSource{url: a.url, by: "--broker"}, nil
	}
	name, by := a.context, "--context"
	if name == "" {
		if url := a.getenv("JOBS_BROKER"); url != "" {
			return storeSource{url: url, by: "JOBS_BROKER"}, nil
		}
		name, by = a.getenv("JOBS_CONTEXT"), "JOBS_CONTEXT"
	}
	cfg, path, err := a.readConfig()
	if err != nil {
		return storeSource{}, err
	}
	if name == "" {
		name, by = cfg.Current, path
	}
	if name == "" {
		return storeSource{}, misuse(`no store is given: use --broker or --context, set JOBS_BROKER, or choose one with "jobsctl context use"`)
	}
	store, err := cfg.named(name, path)
	return storeSource{url: store.Broker, context: name, by: by}, err
}

// storeURL returns the URL of a store that is given by its URL or its context.
func (a *app) storeURL(text string) (string, error) {
	if strings.Contains(text, ":") {
		return text, nil
	}
	cfg, path, err := a.readConfig()
	if err != nil {
		return "", err
	}
	store, err := cfg.named(text, path)
	return store.Broker, err
}

func (c *fileConfig) named(name, path string) (storeConfig, error) {
	store, ok := c.Contexts[name]
	switch {
	case !ok:
		return store, misuse("%s has no context %q; \"jobsctl context ls\" lists them", path, name)
	case store.Broker == "":
		return store, misuse("the context %q of %s has no broker", name, path)
	}
	return store, nil
}

// configPath returns the path of the configuration file, which need not exist.
func (a *app) configPath() (string, error) {
	if a.config != "" {
		return a.config, nil
	}
	dir, err := a.home()
	if err != nil {
		return "", misuse("there is no directory for configuration files; give --config")
	}
	return filepath.Join(dir, "jobsctl", "config.yaml"), nil
}

// readConfig reads the configuration file. The default file may be missing.
func (a *app) readConfig() (cfg fileConfig, path string, err error) {
	path, err = a.configPath()
	if err != nil {
		return cfg, "the file --config", nil
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && a.config == "" {
		return cfg, path, nil
	}
	if err != nil {
		return cfg, path, misuse("%v", err)
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	if err != nil {
		return cfg, path, err
	}
	d := yaml.NewDecoder(bytes.NewReader(content))
	d.KnownFields(true)
	if err := d.Decode(&cfg); err != nil && !errors.Is(err, io.EOF) {
		return cfg, path, misuse(`%s is not a configuration: write "contexts" by name, each with a "broker", and "current"`, path)
	}
	return cfg, path, private(file, &cfg)
}

// private returns an error if the file holds a password and other users can read it.
func private(file *os.File, cfg *fileConfig) error {
	info, err := file.Stat()
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	for _, store := range cfg.Contexts {
		if _, secret := redacted(store.Broker); secret {
			return misuse("%s holds a password, and other users can read it (its mode is %#o); run chmod 600 on it", file.Name(), info.Mode().Perm())
		}
	}
	return nil
}

// writeConfig replaces the configuration file atomically.
func (a *app) writeConfig(cfg *fileConfig) error {
	path, err := a.configPath()
	if err != nil {
		return err
	}
	content, err := yaml.Marshal(cfg)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".config-*") // readable by this user only
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // already renamed on success
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// isFile reports whether a URL names a file; such a URL needs no //, and has no secrets.
func isFile(url string) bool {
	return len(url) > len("file:") && strings.EqualFold(url[:len("file:")], "file:")
}

// redacted returns a URL without its secrets, and whether it had any. A parameter can be
// the URL of a shard, with secrets of its own. Of a URL that cannot be parsed, only the
// scheme is left: a password that is not percent-encoded may be anywhere.
func redacted(text string) (shown string, secret bool) {
	if isFile(text) {
		return text, false
	}
	hidden := "…"
	if scheme, _, ok := strings.Cut(text, "://"); ok && !strings.ContainsAny(scheme, ":@/") {
		hidden = scheme + "://…"
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Host == "" && u.User == nil && u.RawQuery == "" && u.Path == "" {
		return hidden, true
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" || strings.Contains(u.EscapedPath()+u.RawQuery, "@") {
		return hidden, true
	}
	if _, secret = u.User.Password(); secret {
		u.User = url.UserPassword(u.User.Username(), "…")
	}
	for name, values := range query {
		if strings.ContainsAny(name, "@:/") { // a part of a URL that was to be a value
			return hidden, true
		}
		for i, value := range values {
			switch {
			case strings.Contains(strings.ToLower(name), "pass"):
				values[i], secret = "…", true
			case strings.Contains(value, "://"):
				inner := false
				values[i], inner = redacted(value)
				secret = secret || inner
			}
		}
	}
	if secret {
		u.RawQuery = query.Encode()
	}
	shown = u.String()
	if rest, bare := strings.CutPrefix(shown, u.Scheme+":?"); bare { // it omits the // before an empty host
		shown = u.Scheme + "://?" + rest
	}
	if shown, err = url.PathUnescape(shown); err != nil {
		return hidden, true
	}
	return shown, secret
}
