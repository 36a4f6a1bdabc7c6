/** The layers of scripts/test, each as its parts: the folders that have tests. */
const parts = {
  unit: 'unit',
  repository: 'repository',
  property: 'random/property',
  model: 'random/model',
  fuzz: 'random/fuzz',
  chaos: 'random/chaos',
  contract: 'contract',
  netns: 'host/netns',
  load: 'host/load',
  vm: 'host/vm',
  release: 'host/release',
  ipvs: 'cluster/ipvs',
  'control-plane': 'cluster/control-plane',
  migration: 'cluster/migration',
  image: 'cluster/image',
  nodes: 'cluster/nodes',
};

/** What an extent of scripts/test leaves out, as whole files (test/support/jest/extent.ts). */
const extentToLeftOut = {
  gate: ['!**/*.full.test.ts', '!**/*.long.test.ts'],
  full: ['!**/*.long.test.ts'],
  long: [],
};
const leftOut = extentToLeftOut[process.env.TEST_EXTENT ?? 'full'];

/** One Jest project for each part, so that `scripts/test PART` runs just that one. */
export default {
  // Two cores; scripts/test says where other numbers are better.
  maxWorkers: 2,
  // No measurement, but the end of a test that hangs: minutes of fake time, hundreds of random runs or real sockets take
  // seconds on a quiet machine, and ten times that on one with more to do. What the gate leaves out takes longer.
  testTimeout: process.env.TEST_EXTENT === 'gate' ? 180_000 : 600_000,
  testSequencer: '<rootDir>/test/support/jest/longest-first.js',
  projects: Object.entries(parts).map(([part, folder]) => ({
    displayName: part,
    testEnvironment: '<rootDir>/test/support/jest/environment.js',
    roots: [`<rootDir>/test/${folder}`],
    testMatch: ['**/*.test.ts', ...leftOut],
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
