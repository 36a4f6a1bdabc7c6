// Bundles cli/main.ts: `build.mjs OUT IMAGE KEEPALIVED-IMAGE`, called by scripts/build. OUT gets
//   vipnat.js       refuses an old Node, then loads
//   start.js        which runs
//   program.js      what every command needs, with program.js.code beside it: what V8 made of it
//   vendor/         each other dependency in a file of its own, loaded by who uses it, and native.js, which loads
//   prebuilds/      netlink's native part
//   packages.json   the npm packages of which there is anything in all these
// All is CommonJS: measured, Node starts it 4 ms sooner than the same as ES modules in chunks.
import { build } from 'esbuild';
import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, cpSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { relative } from 'node:path';

const [out, image, keepalivedImage] = process.argv.slice(2);
const { version, dependencies } = JSON.parse(readFileSync('package.json', 'utf8'));

/** Dependencies that every command loads. */
const startPackages = ['commander', 'ipaddr.js', 'zod'];
const vendorPackages = Object.keys(dependencies).filter((name) => !startPackages.includes(name));
const vendorFiles = {
  ...Object.fromEntries(vendorPackages.map((name) => [name.replace(/^@.*\//, ''), name])),
  netlink: 'netlink/dist/raw.js',
  // Without the clients of all API groups: a third of the size.
  'client-node': '@kubernetes/client-node/dist/config.js',
};

const vendor = {
  name: 'vendor',
  setup({ onResolve }) {
    for (const [name, file] of Object.entries(vendorFiles)) {
      onResolve({ filter: new RegExp(`^${RegExp.escape(file)}$`) }, ({ kind }) =>
        kind === 'entry-point' ? undefined : { path: `./vendor/${name}.js`, external: true },
      );
    }
  },
};

/** netlink looks for its native part in folders of a checkout. Where it is, native.js knows; in a single executable, that. */
const nativeApart = {
  name: 'native-apart',
  setup({ onResolve }) {
    onResolve({ filter: /^node-gyp-build$/ }, () => ({ path: './native.js', external: true }));
  },
};

/** Both packages have to mean the same classes by it. */
const schemaApart = {
  name: 'schema-apart',
  setup({ onResolve }) {
    onResolve({ filter: /^@peculiar\/asn1-schema$/ }, ({ kind }) =>
      kind === 'entry-point' ? undefined : { path: './asn1-schema.js', external: true },
    );
  },
};

/** What commander imports only for subcommands that are programs of their own, and for help in colour. */
const slimCommander = {
  name: 'slim-commander',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:(child_process|util)$/ }, ({ path, importer }) =>
      importer.includes('/commander/') ? { path, namespace: 'slim' } : undefined,
    );
    onLoad({ filter: /child_process/, namespace: 'slim' }, () => ({ contents: 'export default {};' }));
    onLoad({ filter: /util/, namespace: 'slim' }, () => ({
      contents:
        "export const stripVTControlCharacters = (text) => require('node:util').stripVTControlCharacters(text);",
    }));
  },
};

/**
 * What client-node's file has for credentials from other programs, which lib/kernel/credential-plugin.ts starts or route.ts refuses, and for
 * clients of the API, which vipnat does not use: 95 % of it. No user is one of these authenticators'.
 */
const slimClientNode = {
  name: 'slim-client-node',
  setup({ onResolve, onLoad }) {
    const unused =
      /^(undici|socks|socks-proxy-agent|\.\/(azure|gcp|exec|oidc)_auth\.js|\.\/middleware\.js|\.\/gen\/index\.js)$/;
    onResolve({ filter: unused }, ({ path, importer }) =>
      importer.endsWith('/client-node/dist/config.js') ? { path, namespace: 'unused' } : undefined,
    );
    const classes = ['AzureAuth', 'GoogleCloudPlatformAuth', 'ExecAuth', 'OpenIDConnectAuth'];
    const nobody = 'class { isAuthProvider() { return false; } }';
    const contents = `module.exports = { ${classes.map((name) => `${name}: ${nobody}`).join(', ')} };`;
    onLoad({ filter: /./, namespace: 'unused' }, () => ({ contents }));
  },
};

/** The entry does not hold the program: V8 takes ready-made code only for a file of its own. */
const programApart = {
  name: 'program-apart',
  setup({ onResolve }) {
    onResolve({ filter: /^\.\/program\.ts$/ }, () => ({ path: './start.js', external: true }));
  },
};

const lateRequire = String(createRequire(import.meta.url)('./late-require.cjs'));

const common = {
  // By the names that the lock file has, also where node_modules is a link.
  preserveSymlinks: true,
  bundle: true,
  format: 'cjs',
  platform: 'node',
  minify: true,
  // Code that node:vm runs has no import() of its own.
  supported: { 'dynamic-import': false },
  metafile: true,
  logLevel: 'warning',
};

const results = await Promise.all([
  build({
    ...common,
    entryPoints: { vipnat: 'cli/main.ts' },
    outdir: out,
    // An older Node must be able to read this file as far as the line that refuses it.
    target: 'node18',
    plugins: [programApart],
  }),
  build({
    ...common,
    entryPoints: { program: 'cli/program.ts' },
    outdir: out,
    target: 'node22',
    keepNames: true,
    define: {
      VIPNAT_VERSION: JSON.stringify(version),
      VIPNAT_IMAGES: JSON.stringify({ vipnat: image, keepalived: keepalivedImage }),
    },
    banner: {
      js: `(function(exports,nodeRequire,module){"use strict";const require=(${lateRequire})(nodeRequire);`,
    },
    footer: { js: '})' },
    plugins: [vendor, slimCommander],
  }),
  build({
    ...common,
    entryPoints: vendorFiles,
    outdir: `${out}/vendor`,
    entryNames: '[name]',
    target: 'node22',
    plugins: [nativeApart, slimClientNode, schemaApart],
  }),
]);
refuseWideText(`${out}/program.js`);
writeFileSync(`${out}/packages.json`, `${JSON.stringify(listPackages(results), null, 2)}\n`);
chmodSync(`${out}/vipnat.js`, 0o755);
copyFileSync('scripts/start.cjs', `${out}/start.js`);
copyFileSync('scripts/native.cjs', `${out}/vendor/native.js`);
writeFileSync(`${out}/package.json`, `${JSON.stringify({ type: 'commonjs', config: { image } })}\n`);
for (const target of ['linux-x64', 'linux-arm64']) {
  cpSync(`node_modules/netlink/prebuilds/${target}`, `${out}/prebuilds/${target}`, { recursive: true });
}

// The command that has to be fast, so that its functions are among the ready-made ones.
const fastCommand = ['plan', '--offline', '--vip', '10.0.0.50', '--proxy-mode', 'iptables'];
// The same bytes from every build: no threads of V8's own, and hashes of strings that start from a known number. Neither
// counts when V8 later asks whether the code was made with its own flags.
const sameAgain = ['--predictable', '--random-seed=1'];
execFileSync(process.execPath, [...sameAgain, 'scripts/record-code.cjs', out, ...fastCommand], {
  stdio: ['ignore', 'ignore', 'inherit'],
  env: {},
});

/** One character outside ASCII makes V8 keep the whole text with two bytes for each. esbuild escapes all but those of regular expressions. */
function refuseWideText(file) {
  const [found] = /.{0,40}[^\0-\x7f]/.exec(readFileSync(file, 'utf8')) ?? [];
  if (found !== undefined)
    throw new Error(`${file} is not ASCII: write \\u escapes in regular expressions: ${found}`);
}

/** Of each package that a file here has a part of: name, version, license, the lock file's checksum, and those files. */
function listPackages(bundles) {
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'));
  const folderToFiles = new Map();
  for (const [file, { inputs }] of bundles.flatMap(({ metafile }) => Object.entries(metafile.outputs))) {
    const used = Object.keys(inputs).filter((input) => inputs[input].bytesInOutput > 0);
    for (const folder of used.flatMap((input) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input) ?? [])) {
      folderToFiles.set(folder, (folderToFiles.get(folder) ?? new Set()).add(relative(out, file)));
    }
  }
  const found = [...folderToFiles].map(([folder, files]) => {
    const { name, version, license } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'));
    return { name, version, license, integrity: packages[folder].integrity, files: [...files].sort() };
  });
  const toKey = ({ name, version }) => `${name} ${version}`;
  return found.sort((one, other) => (toKey(one) < toKey(other) ? -1 : 1));
}
