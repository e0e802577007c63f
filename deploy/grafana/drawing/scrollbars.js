// @grafana/ui imports the default of this CommonJS package from an .mjs file, which esbuild takes for the whole module.
export { Scrollbars as default, Scrollbars } from './node_modules/react-custom-scrollbars-2/lib/index.js';
