const layers = [
  ...['unit', 'property', 'model', 'fuzz', 'contract', 'netns', 'chaos', 'load', 'vm', 'cluster', 'image'],
];

/** One jest project per test layer, so that `scripts/test LAYER` runs just that one. */
export default {
  // Two cores: the namespace layers start many processes each, and more workers only make them wait.
  maxWorkers: 2,
  // A wait is no measurement: on a machine with more to do, what takes a second here may take many.
  testTimeout: 30_000,
  testSequencer: '<rootDir>/test/longest-first.js',
  projects: layers.map((layer) => ({
    displayName: layer,
    testEnvironment: '<rootDir>/test/environment.js',
    roots: [`<rootDir>/test/${layer}`],
    testMatch: ['**/*.test.ts'],
    extensionsToTreatAsEsm: ['.ts'],
    transform: {
      '\\.ts$': [
        '@swc/jest',
        { jsc: { parser: { syntax: 'typescript' }, target: 'es2023' }, module: { type: 'es6' } },
      ],
    },
    cacheDirectory: '<rootDir>/.cache/jest',
  })),
};
