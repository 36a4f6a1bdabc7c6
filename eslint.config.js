import { defineConfig } from 'eslint/config';
import { createTypeScriptImportResolver } from 'eslint-import-resolver-typescript';
import { importX } from 'eslint-plugin-import-x';
import jsdoc from 'eslint-plugin-jsdoc';
import tseslint from 'typescript-eslint';

const sizeLimits = {
  'max-lines': ['error', { max: 400, skipBlankLines: true, skipComments: true }],
  'max-lines-per-function': ['error', { max: 50 }],
  complexity: ['error', 10],
  'max-depth': ['error', 3],
  'max-params': ['error', 4],
};

/** Only lib/kernel/ starts processes or opens netlink (I2); sockets are for the Kubernetes API, kube-proxy, probes and http. */
const processModules = ['child_process', 'node:child_process', 'execa', 'netlink', 'netlink/dist/raw.js'];
const socketModules = [
  'http',
  'https',
  'net',
  'tls',
  'dgram',
  'node:http',
  'node:https',
  'node:tls',
  'node:dgram',
];
/** Telling an address from a name needs no socket; everything else of node:net is for them. */
const netMessage =
  'Only lib/kubernetes, lib/http and agent/health open sockets (I2): of node:net, isIP may be used.';
const netExceptIsIp = { name: 'node:net', allowImportNames: ['isIP'], message: netMessage };
const forbid = (names, message) => ({
  'no-restricted-imports': [
    'error',
    {
      paths: [...names.map((name) => ({ name, message })), ...(names.includes('net') ? [netExceptIsIp] : [])],
    },
  ],
});
export default defineConfig(
  { ignores: ['dist', 'dist-release', 'node_modules', '.cache', 'coverage'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked, importX.flatConfigs.typescript],
    plugins: { 'import-x': importX, jsdoc },
    languageOptions: { parserOptions: { projectService: true } },
    settings: { 'import-x/resolver-next': [createTypeScriptImportResolver()] },
    rules: {
      ...sizeLimits,
      '@typescript-eslint/explicit-module-boundary-types': 'error',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      'import-x/no-default-export': 'error',
    },
  },
  {
    files: [
      'agent/**/*.ts',
      'balancer/**/*.ts',
      'cli/**/*.ts',
      'config/**/*.ts',
      'controller/**/*.ts',
      'lib/**/*.ts',
    ],
    rules: {
      ...forbid(
        [...processModules, ...socketModules],
        'Only lib/kernel starts processes; only lib/kubernetes, lib/http and agent/health open sockets (I2).',
      ),
      'no-restricted-syntax': [
        'error',
        {
          selector: 'NewExpression[callee.name="Date"][arguments.length=0]',
          message: 'Time comes from the Clock (I2).',
        },
      ],
      'no-restricted-properties': [
        'error',
        { object: 'Date', property: 'now', message: 'Time comes from the Clock (I2).' },
        { object: 'performance', property: 'now', message: 'Time comes from the Clock (I2).' },
        { object: 'Math', property: 'random', message: 'Randomness is injected.' },
      ],
      'no-restricted-globals': [
        'error',
        { name: 'setTimeout', message: 'Time comes from the Clock (I2).' },
        { name: 'setInterval', message: 'Time comes from the Clock (I2).' },
        { name: 'fetch', message: 'Only lib/kubernetes, lib/http and agent/health open sockets (I2).' },
      ],
      'jsdoc/require-jsdoc': [
        'error',
        {
          publicOnly: true,
          contexts: [
            'TSInterfaceDeclaration',
            'TSTypeAliasDeclaration',
            'ExportNamedDeclaration > VariableDeclaration',
            'ClassDeclaration',
            'FunctionDeclaration',
          ],
        },
      ],
    },
  },
  {
    files: ['lib/kernel/**/*.ts'],
    rules: {
      ...forbid(socketModules, 'lib/kernel opens no sockets of its own.'),
      'no-restricted-globals': 'off',
      'no-restricted-syntax': 'off',
      'no-restricted-properties': 'off',
    },
  },
  {
    files: ['lib/kubernetes/**/*.ts', 'lib/http/**/*.ts', 'agent/health/connection.ts'],
    rules: { ...forbid(processModules, 'Only lib/kernel starts processes (I2).') },
  },
  {
    // The real ones, behind their ports.
    files: ['lib/clock.ts'],
    rules: {
      'no-restricted-globals': 'off',
      'no-restricted-syntax': 'off',
      'no-restricted-properties': 'off',
    },
  },
  {
    files: ['test/**/*.ts'],
    rules: {
      // A describe block is as long as its behaviours are many.
      'max-lines-per-function': 'off',
      '@typescript-eslint/explicit-module-boundary-types': 'off',
    },
  },
  {
    files: ['**/*.js'],
    extends: [tseslint.configs.disableTypeChecked],
    rules: { 'import-x/no-default-export': 'off' },
  },
);
