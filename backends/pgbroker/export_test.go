package pgbroker

// Statements are what the broker sends, by name.
func Statements(schema string) map[string]string { return loadQueries(schema) }
